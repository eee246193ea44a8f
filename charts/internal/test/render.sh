#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Renders every chart in several ways and compares the outcome with internal/golden/. With --update it writes internal/golden/ instead.
# Then it tries what the charts must refuse, and looks for the words of the advice. CHARTS and USERS come from the
# Makefile: all charts, and those that are built on the library. CHART leaves out all others.
set -eu
cd "$(dirname "$0")/../.."
helm=${HELM:-helm}
failed=0

wanted() { # chart
	[ -z "${CHART:-}" ] || [ "$CHART" = "$1" ]
}

render() { # name chart flags...
	name=$1 chart=$2
	shift 2
	rendered="$rendered $name"
	wanted "$chart" || return 0
	out=$("$helm" template demo "$chart" --namespace team "$@") || { echo "FAIL $name: does not render"; failed=1; return; }
	if [ "${update:-}" ]; then
		printf '%s\n' "$out" >"internal/golden/$name.yaml"
	elif printf '%s\n' "$out" | diff -u "internal/golden/$name.yaml" -; then
		echo "ok   $name"
	else
		echo "FAIL $name: differs from internal/golden/$name.yaml"
		failed=1
	fi
}

store=s3.endpoint=s3.example.com,s3.bucket=scans

refuse() { # words chart flags...
	words=$1 chart=$2
	shift 2
	wanted "$chart" || return 0
	if out=$("$helm" template demo "$chart" --namespace team "$@" 2>&1); then
		echo "FAIL $chart $*: is not refused"
		failed=1
	elif printf '%s' "$out" | grep -qF -- "$words"; then
		echo "ok   refused: $chart $*"
	else
		printf 'FAIL %s %s: no word of "%s" in:\n%s\n' "$chart" "$*" "$words" "$out"
		failed=1
	fi
}

notes() { # words chart flags...
	words=$1 chart=$2
	shift 2
	wanted "$chart" || return 0
	if out=$("$helm" install demo "$chart" --namespace team --dry-run=client "$@" 2>&1) && printf '%s' "$out" | sed '1,/^NOTES:/d' | grep -qF -- "$words"; then
		echo "ok   notes: $chart $*"
	else
		printf 'FAIL notes of %s %s: no word of "%s" in:\n%s\n' "$chart" "$*" "$words" "$out"
		failed=1
	fi
}

[ "${1:-}" != --update ] || update=1
rendered=

# Every chart as it comes, and for all namespaces.
for chart in $USERS; do
	render "$chart" "$chart"
	render "$chart-cluster" "$chart" --set clusterWide=true
done

# The operator's chart. What Kubernetes 1.36 serves, Helm does not suppose by itself.
mutating=admissionregistration.k8s.io/v1/MutatingAdmissionPolicy
password='minio.auth.rootPassword=not-a-secret'
render scanyard scanyard --set "$password" --api-versions "$mutating"
render scanyard-s3 scanyard --set minio.enabled=false,$store,s3.enabled=true,s3.port=9000,s3.region=eu-central-1,s3.pathStyle=false \
	--set customCACertificate.existingCertificate=ca --set-string 's3.urlTemplate=scans/{{ .Scan.UID }}/{{ .Filename }}'
render scanyard-aws scanyard --api-versions "$mutating" --set scanPolicy.enabled=false,statusPolicy.enabled=false,minio.enabled=false,$store,s3.authType=aws-iam,s3.endpoint=s3.amazonaws.com
render scanyard-full scanyard --set "$password" --set replicas=2,alerts.enabled=true,dashboard.enabled=true,alerts.labels.release=prometheus,networkPolicy.enabled=true,metrics.serviceMonitor.enabled=true,metrics.authentication=true \
	--set uploadEndpoint.enabled=false,rbac.userRoles.prefix=scanyard-,rbac.userRoles.aggregate=false,clusterDomain=corp.example \
	--set 'podLabels.team=sec,podAnnotations.note=x,priorityClassName=high,tolerations[0].operator=Exists,extraArgs[0]=--zap-log-level=1,scanQuota.namespaces={team-a,team-b}' \
	--api-versions "$mutating" --set 'serviceAccount.name=mine,statusPolicy.exempt={system:serviceaccount:old:operator,system:serviceaccount:velero:*}'

render scanyard-scoped scanyard --set minio.enabled=false,$store --set 'watchNamespaces={team-a,team-b},access.perScan=false,scanPolicy.enabled=true,rbac.clusterKinds.readable=false' --api-versions "$mutating"
render scanyard-policies scanyard --set "$password,networkPolicy.enabled=true,networkPolicy.scanPods.namespaces={team-a},scanPolicy.mode=always,scanPolicy.templates=false" \
	--set 'scanPolicy.namespaceSelector.matchLabels.tier=strict,scanPolicy.secrets={scan-*,login},scanPolicy.serviceAccounts={trivy-k8s},scanPolicy.validationActions={Warn,Audit}' \
	--set 'networkPolicy.scanPods.apiServer.to[0].ipBlock.cidr=10.0.0.1/32,networkPolicy.scanPods.hookEgress[0].to[0].ipBlock.cidr=203.0.113.7/32,networkPolicy.scanPods.hookEgress[0].ports[0].port=443'
render scanyard-scoped-tokens scanyard --set minio.enabled=false,$store --set 'watchNamespaces={team-a},uploadEndpoint.tokenReviews=true,networkPolicy.scanPods.namespaces={team-a},networkPolicy.scanPods.storage[0].ipBlock.cidr=198.51.100.0/24'

render scanyard-results scanyard --set "$password,resultsEndpoint.enabled=true,networkPolicy.enabled=true"
render scanyard-results-only scanyard --set minio.enabled=false,$store --set 'watchNamespaces={team-a},uploadEndpoint.enabled=false,uploadEndpoint.tokenReviews=true,resultsEndpoint.enabled=true,resultsEndpoint.url=https://scanyard.example.com:8443'

render decisions scanyard --show-only templates/deployment.yaml --set minio.enabled=false,$store --set 'decisionExport.enabled=true,decisionExport.sinks={hub=grpcs://hub.example.com:9443\,ca=/etc/hub/ca.crt}' \
	--set 'extraVolumes[0].name=hub,extraVolumes[0].configMap.name=hub,decisionExport.mounts[0].name=hub,decisionExport.mounts[0].mountPath=/etc/hub' \
	--set 'decisionExport.clusterID=0c9a7d3e-3f0e-4a54-9a55-8d1f3f5f7a10,decisionExport.extraArgs={--queue-max-bytes=256MiB}'
render decisions-claim scanyard --show-only templates/deployment.yaml --set "$password,decisionExport.enabled=true,decisionExport.sinks={hub=grpcs://hub.example.com:9443}" \
	--set decisionExport.volume.emptyDir=null,decisionExport.volume.persistentVolumeClaim.claimName=decisions

# Cascading rules of every chart that has some. What ffuf's rule reads is in no namespace but its own.
for folder in */cascading-rules; do
	chart=${folder%/*}
	render "$chart-rules" "$chart" --set cascadingRules.enabled=true
	[ "$chart" = ffuf ] || render "$chart-rules-cluster" "$chart" --set cascadingRules.enabled=true,clusterWide=true
done

# Every value that all scanners share, once, and what is particular to one.
render nmap-full nmap --set scanner.nameAppend=-privileged,scanner.activeDeadlineSeconds=3600,scanner.ttlSecondsAfterFinished=0,scanner.suspend=true,scanner.phases=Separate \
	--set 'imagePullSecrets[0].name=pull,scanner.env[0].name=A,scanner.env[0].value=b,scanner.extraVolumes[0].name=v' \
	--set 'scanner.extraVolumes[0].configMap.name=c,scanner.extraVolumeMounts[0].name=v,scanner.extraVolumeMounts[0].mountPath=/v' \
	--set 'scanner.extraContainers[0].name=side,scanner.extraContainers[0].image=x,scanner.podSecurityContext.fsGroup=1' \
	--set 'scanner.envFrom[0].secretRef.name=s,scanner.nodeSelector.arch=amd64,scanner.tolerations[0].operator=Exists,scanner.resources.limits.memory=1Gi' \
	--set 'scanner.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey=zone,parser.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey=zone,parser.nodeSelector.arch=arm64,parser.env[0].name=A,parser.env[0].value=b' \
	--set parser.image.repository=docker.io/securecodebox/parser-nmap,parser.image.tag=5.8.0,parser.ttlSecondsAfterFinished=60,parser.resources.limits.cpu=1 \
	--set 'parser.tolerations[0].operator=Exists,parser.scopeLimiterAliases.domain=x'
digest=sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
render nmap-digest nmap --set "scanner.image.tag=7.97@$digest,parser.image.tag=0.1.0@$digest"
render nmap-second nmap --set scanner.nameAppend=-privileged,parser.enabled=false
render ncrack-encrypted ncrack --set encryptPasswords.existingSecret=public-key,encryptPasswords.key=age.pub
render nuclei-no-cache nuclei --set nucleiTemplateCache.enabled=false
render nuclei-upgrade nuclei --is-upgrade --set 'nucleiTemplateCache.storageClassName=nfs,nucleiTemplateCache.accessMode={ReadWriteMany}'
render screenshooter-env screenshooter --set-string 'scanner.env[0].name=MOZ_HEADLESS,scanner.env[0].value=0,scanner.env[1].name=LANG,scanner.env[1].value=C.UTF-8'
render subfinder-domain subfinder --set includeTargetDomain=true \
	--set 'scanner.extraVolumes[0].name=subfinder-config,scanner.extraVolumes[0].secret.secretName=subfinder' \
	--set 'scanner.extraVolumeMounts[0].name=subfinder-config,scanner.extraVolumeMounts[0].mountPath=/.config/subfinder/'
render trivy-full trivy --set createAutoDiscoveryScanType=true,k8sScanScope=cluster,trivyDatabaseCache.replicas=2,trivyDatabaseCache.cacheStorageLimit=2Gi
render trivy-no-server trivy --set trivyDatabaseCache.enabled=false
render trivy-cluster-k8s trivy --set 'clusterWide=true,k8sScanScope=cluster,createAutoDiscoveryScanType=true,serviceAccountNamespaces={team-a,team-b}'
render zap-automation-framework-full zap-automation-framework --set 'scanner.backoffLimit=1,scanner.envFrom[0].secretRef.name=login'
render cascading-scans-account cascading-scans --set hook.serviceAccountName=mine
render finding-post-processing-rules finding-post-processing --set 'rules[0].matches.anyOf[0].category=Open Port,rules[0].override.severity=HIGH'
render persistence-reports-full persistence-reports --set clusterWide=true,group=openreports.io,chunkResults=500,minSeverity=LOW,informationalResult=pass,zeroFindings=false,keepReports=true,historyPerSchedule=3
render persistence-elastic-full persistence-elastic --set clusterWide=true,executionNamespace=team,indexAppendNamespace=false,authentication.apiKeySecret=a,authentication.userSecret=b,batchSize=500,refresh=false,mappings=opensearch
render persistence-azure-monitor-ingestion persistence-azure-monitor --set monitor.ingestion.endpoint=https://x.example,monitor.ingestion.rule=dcr-1,monitor.ingestion.stream=Custom-F
render notification-execution notification --set clusterWide=true,executionNamespace=team,hook.runOn=Always,customTemplateMap.exists=true,customTemplateMap.name=mine \
	--set 'hook.extraVolumes[0].name=v,hook.extraVolumes[0].secret.secretName=s,hook.extraVolumeMounts[0].name=v,hook.extraVolumeMounts[0].mountPath=/v'
render persistence-defectdojo-full persistence-defectdojo --set clusterWide=true,executionNamespace=team,defectdojo.syncFindingsBack=false,defectdojo.lowPrivilegedMode=true,defectdojo.authentication.userSecret=a,defectdojo.authentication.apiKeyKey=b
render persistence-static-report-full persistence-static-report --set 'clusterWide=true,executionNamespace=team,report.formats={html,csv},report.title=Shop,report.maxFindings=100000,report.junitSeverity=HIGH,hook.ttlSecondsAfterFinished=1000000'
render generic-webhook-execution generic-webhook --set clusterWide=true,executionNamespace=team,hook.priority=3,hook.labels.tier=one \
	--set 'hook.env[0].name=A,hook.env[0].valueFrom.configMapKeyRef.name=b,hook.env[0].valueFrom.configMapKeyRef.key=c'

# The auto-discovery of Kubernetes, as it comes and with all that it can look at.
render auto-discovery-kubernetes auto-discovery-kubernetes
render auto-discovery-kubernetes-full auto-discovery-kubernetes --set replicas=2,fullnameOverride=discovery,serviceAccount.name=finder,image.tag=v1,pullSecretExtractor.image.tag=v2 \
	--set config.containerAutoDiscovery.enabled=true,config.ingressAutoDiscovery.enabled=true,config.gatewayAutoDiscovery.enabled=true,config.metrics.bindAddress=127.0.0.1:9090 \
	--set 'podLabels.team=sec,podAnnotations.note=x,tolerations[0].operator=Exists,nodeSelector.arch=amd64,imagePullSecrets[0].name=pull,extraArgs[0]=--zap-log-level=1'

# Auto-discovery for AWS.
queue='config.aws.queueUrl=https://sqs.eu-central-1.amazonaws.com/123456789012/ecs-events'
render auto-discovery-cloud-aws auto-discovery-cloud-aws --set "$queue"
render auto-discovery-cloud-aws-full auto-discovery-cloud-aws --set "$queue,fullnameOverride=ecs,replicas=2,config.kubernetes.namespace=scans,config.aws.sync.enabled=true,config.leaderElection.resourceName=mine" \
	--set 'config.aws.sync.clusters={arn:aws:ecs:eu-central-1:123456789012:cluster/shop},imagePullSecrets[0].name=pull,image.tag=v1,extraArgs={--zap-log-level=1},extraEnv[0].name=HTTPS_PROXY,extraEnv[0].value=http://proxy' \
	--set 'serviceAccount.annotations.eks\.amazonaws\.com/role-arn=arn:aws:iam::123456789012:role/discovery,podLabels.tier=one,podAnnotations.note=x,nodeSelector.arch=amd64,tolerations[0].operator=Exists' --set-string config.metrics.bindAddress=0 \
	--set 'awsAuthentication.userSecret=keys,affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey=zone'

# The reports API server: as it comes, with PostgreSQL and all that there is, with MariaDB and little.
render registry registry
render registry-full registry --set 'namespaces={team-a,team-b},nats.external.enabled=true,nats.external.urls={tls://nats.example.com:4222},nats.external.caSecret=nats-ca,nats.external.credentialsSecret=nats' \
	--set 'worker.cache.persistent=true,worker.cache.storageClass=fast,worker.autoscaling.enabled=true,networkPolicy.enabled=true,controller.replicas=2,metrics.serviceMonitor.enabled=true' \
	--set 'credentials.namespaces={team-a},database.mini.secretName=database,prometheusRule.enabled=true,webhook.enabled=false,rbac.userRoles=false'

# The console: as people sign in with tokens; at a provider, with all that there is; before a proxy. The Secret of sessions is one
# that is there, since Helm makes another each time.
address='url=https://console.example.com,session.existingSecret=console-session'
render console console --set "$address"
render console-full console --set "$address,fullnameOverride=pages,replicas=2,image.tag=v1,imagePullSecrets[0].name=pull,session.previous=true,storageHosts={s3.example.com},tls.secretName=pages-tls" \
	--set 'signIn.oidc.issuer=https://id.example.com,signIn.oidc.clientID=scanyard,signIn.oidc.clientSecretName=oidc,signIn.oidc.caConfigMap=oidc-ca,signIn.oidc.scopes={groups,email}' \
	--set 'ingress.enabled=true,ingress.className=nginx,ingress.annotations.note=x,ingress.tlsSecret=console-tls,gateway.parentRefs[0].name=web,gateway.parentRefs[0].namespace=infra,service.annotations.note=x' \
	--set 'networkPolicy.enabled=true,networkPolicy.from[0].namespaceSelector.matchLabels.name=ingress,networkPolicy.egress[0].ports[0].port=443,metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.interval=1m' \
	--set 'podLabels.team=sec,podAnnotations.note=x,tolerations[0].operator=Exists,nodeSelector.arch=amd64,priorityClassName=high,extraArgs={--oidc-scopes=profile},serviceAccount.name=pages,serviceAccount.annotations.note=x'
render console-proxy console --set "$address,signIn.tokens=false,signIn.proxy.addresses={10.0.0.0/24},signIn.proxy.groups={team-a,team-b},signIn.proxy.users={kim@example.com}" \
	--set 'metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.labels.prometheus=main,bindHost=127.0.0.1'
render reports reports
render reports-full reports --set 'database.type=postgresql,database.existingSecret=db,database.key=uri,database.queryKey=copy,database.clusterID=east,database.tls.existingSecret=db-tls,database.tls.clientCertificate=true' \
	--set 'groups.prext.enabled=true,takeOver=always,replicas=3,tls.certManager.enabled=true,tls.certManager.issuerRef.name=ca,tls.certManager.issuerRef.kind=ClusterIssuer' \
	--set 'serviceMonitor.enabled=true,serviceMonitor.interval=1m,serviceMonitor.labels.prometheus=main,alerts.enabled=true,alerts.labels.prometheus=main,networkPolicy.enabled=true' \
	--set 'networkPolicy.from[0].ipBlock.cidr=10.0.0.0/8,networkPolicy.databaseTo[0].ipBlock.cidr=10.1.0.0/16,fullnameOverride=polr,priorityClassName=system-cluster-critical,imagePullSecrets[0].name=pull' \
	--set 'podLabels.team=sec,podAnnotations.note=x,tolerations[0].operator=Exists,nodeSelector.arch=amd64,extraArgs[0]=--v=2,serviceAccount.annotations.note=x,resources.limits.memory=1Gi' \
	--set 'affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey=zone'
render reports-mysql reports --set 'database.type=mysql,database.existingSecret=db,database.tls.existingSecret=db-tls,rbac.userRoles=false,alerts.enabled=true,networkPolicy.enabled=true,discoveryWithoutDatabase=false,port=9443' \
	--set 'takeOver=never,groups.openreports.enabled=false,image.tag=v1,maxRequestBytes=67108864'
render reports-backup reports --set 'backup.schedule=15 3 * * *,backup.timeZone=Europe/Berlin,backup.storageClass=slow,imagePullSecrets[0].name=pull,nodeSelector.zone=a' --show-only templates/backup.yaml
render reports-backup-claim reports --set 'backup.schedule=@daily,backup.keep=3,backup.existingClaim=copies,database.sqlite.existingClaim=mine' --show-only templates/backup.yaml
render reports-backup-bucket reports --set 'backup.schedule=@daily,backup.s3.enabled=true,backup.s3.endpoint=s3.example,backup.s3.bucket=copies,backup.s3.port=9000,backup.s3.region=eu-central-1' \
	--set 'backup.s3.pathStyle=true,backup.s3.keySecret=bucket,backup.s3.caSecret=bucket-ca,backup.s3.prefix=east/' --show-only templates/backup.yaml
render reports-backup-iam reports --set 'backup.schedule=@daily,backup.s3.enabled=true,backup.s3.endpoint=s3.amazonaws.com,backup.s3.bucket=copies,backup.s3.authType=aws-iam,backup.s3.serviceAccountName=backup' --show-only templates/backup.yaml
render reports-claim reports --set 'database.sqlite.existingClaim=mine,alerts.enabled=true,resources.limits.memory=null'

# Forwarding: nothing as it comes; each part; everything. Certificates are those of Secrets, since Helm makes others each time.
tls='receiver.tls.secretName=receiver-tls,exporter.tls.secretName=exporter-tls'
render forwarding forwarding
render forwarding-forwarder forwarding --set 'forwarder.enabled=true'
render forwarding-exporter forwarding --set "$tls,exporter.enabled=true,exporter.config.sinks[0].name=hub,exporter.config.sinks[0].provider=grpc,exporter.config.sinks[0].grpc.endpoint=https://hub.example.com:9443"
render forwarding-receiver forwarding --set "$tls,receiver.enabled=true"
render forwarding-fleet forwarding --set "$tls,receiver.enabled=true,receiver.reports.rules[0].cluster=c-1,receiver.reports.rules[0].tenant=*,receiver.reports.rules[0].namespace=edge-1-{tenant}" \
	--set 'receiver.reports.rules[1].cluster=c-2,receiver.reports.rules[1].authority=token:cluster=c-2\,tenant=,receiver.reports.rules[1].tenant=shop,receiver.reports.rules[1].namespace=edge-2,receiver.reports.namespaces={edge-1-shop,edge-2}'
render forwarding-full forwarding --set "$tls,fullnameOverride=out,imagePullSecrets[0].name=pull,clusterID=0c9a7d3e-3f0e-4a54-9a55-8d1f3f5f7a10,operator.namespace=scanyard,operator.url=https://127.0.0.1:8443" \
	--set 'forwarder.enabled=true,forwarder.replicas=2,forwarder.workers=8,forwarder.secrets={siem-token},forwarder.configMaps={siem-ca},forwarder.storageSwitch.enabled=true,forwarder.fileVolume.emptyDir.sizeLimit=1Gi' \
	--set 'forwarder.serviceAccount.name=mine,forwarder.serviceAccount.annotations.note=x,forwarder.extraArgs={--leader-elect},forwarder.podLabels.team=sec,forwarder.podAnnotations.note=x,forwarder.priorityClassName=high' \
	--set 'forwarder.nodeSelector.arch=amd64,forwarder.tolerations[0].operator=Exists,forwarder.image.tag=v1,exporter.enabled=true,exporter.volume.hostPath.path=/data,exporter.volume.hostPath.type=Directory' \
	--set 'exporter.config.tenant=east,exporter.config.sinks[0].name=hub,exporter.config.intake.grpc.tokensFile=/etc/scanyard/secrets/senders/tokens,exporter.secretMounts[0].name=senders,exporter.persistence.storageClass=fast' \
	--set 'receiver.enabled=true,receiver.tls.clientCA=true,receiver.tokensSecret=senders,receiver.persistence.storageClass=slow,receiver.persistence.size=1Ti,receiver.resources.limits.memory=1Gi' \
	--set 'snippet.enabled=true' \
	--set 'exporter.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey=zone'
render forwarding-proxy forwarding --set 'forwarder.enabled=true,forwarder.proxy.url=https://proxy.example.com:3128,forwarder.proxy.noProxy={storage.example.com,10.0.0.0/8},forwarder.proxy.caConfigMap=proxy-ca,operator.url=https://127.0.0.1:8443' \
	--show-only templates/forwarder.yaml
render forwarding-proxy-secret forwarding --set 'forwarder.enabled=true,forwarder.proxy.secretName=proxy' --show-only templates/forwarder.yaml
render forwarding-volatile forwarding --set "$tls,exporter.enabled=true,exporter.persistence.enabled=false,exporter.config.sinks[0].name=hub,forwarder.enabled=true" --show-only templates/exporter.yaml
render forwarding-monitoring forwarding --set 'metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.interval=1m,metrics.serviceMonitor.labels.prometheus=main' \
	--set 'alerts.enabled=true,alerts.labels.prometheus=main,dashboard.enabled=true'
render forwarding-plain forwarding --set 'receiver.enabled=true,receiver.insecure=true,receiver.throwAway=true,receiver.resources.limits.memory=null'
render forwarding-snippet forwarding --set 'snippet.enabled=true,snippet.container=webhook,snippet.uid=0,snippet.variable=DECISIONS,snippet.sinks={hub=grpcs://hub.example.com:9443},snippet.volume.emptyDir=null,snippet.volume.persistentVolumeClaim.claimName=queue,clusterID=0c9a7d3e-3f0e-4a54-9a55-8d1f3f5f7a10'

for file in internal/golden/*.yaml; do
	name=$(basename "$file" .yaml)
	case " $rendered " in
	*" $name "*) ;;
	*) if [ "${update:-}" ]; then rm "$file"; else echo "FAIL $file: nothing renders it"; failed=1; fi ;;
	esac
done
[ "${update:-}" ] && { echo 'internal/golden/ is rewritten'; exit 0; }

refuse 'one namespace only' nmap --set 'clusterWide=true,scanner.extraVolumes[0].name=v,scanner.extraVolumes[0].configMap.name=c'
refuse 'one namespace only' nmap --set 'clusterWide=true,scanner.extraVolumes[0].name=v,scanner.extraVolumes[0].projected.sources[0].configMap.name=c'
refuse 'one namespace only' nmap --set 'clusterWide=true,scanner.envFrom[0].configMapRef.name=c'
refuse 'parser.env' gitleaks --set 'clusterWide=true,parser.env[0].name=A,parser.env[0].valueFrom.configMapKeyRef.name=c'
refuse 'the rule ffuf-http reads a ConfigMap' ffuf --set clusterWide=true,cascadingRules.enabled=true
refuse 'nucleiTemplateCache.enabled=false' nuclei --set clusterWide=true,nucleiTemplateCache.enabled=true
refuse 'serviceAccountNamespaces={team-a,team-b}' trivy --set clusterWide=true,createAutoDiscoveryScanType=true
refuse 'k8sScanScope is world' trivy --set k8sScanScope=world
refuse 'did you mean scanner.extraVolumes?' nmap --set 'scanner.extraVolume[0].name=v'
refuse 'did you mean cascadingRules?' nmap --set cascadingrules.enabled=true
refuse 'did you mean parser.image?' nmap --set parser.imagge.tag=1
refuse 'scanner.foo is not a value of the chart nmap' nmap --set scanner.foo=1
refuse 'did you mean trivyDatabaseCache.replicas?' trivy --set trivyDatabaseCache.repilcas=2
refuse '/scanner/backoffLimit' nmap --set scanner.backoffLimit=abc
refuse '/parser/image/pullPolicy' gitleaks --set parser.image.pullPolicy=Sometimes
refuse '/hook/failurePolicy' update-field --set hook.failurePolicy=Retry
refuse 'Reports are of wgpolicyk8s.io' persistence-reports --set group=example.com
refuse 'brings no Elasticsearch' persistence-elastic --set externalElasticStack.enabled=false
refuse '--set executionNamespace=team' notification --set clusterWide=true,customTemplateMap.exists=true
refuse 'did you mean notificationChannels?' notification --set notificationChannel=x
refuse 'defectdojo.syncMode is both' persistence-defectdojo --set defectdojo.syncMode=both
refuse 'report.formats holds "pdf"' persistence-static-report --set 'report.formats={html,pdf}'
refuse 'report.formats is empty' persistence-static-report --set-json 'report.formats=[]'
refuse 'did you mean hook.priority?' update-field --set hook.prioirty=2
refuse 'did you mean clusterWide?' generic-webhook --set clusterwide=true
refuse '--set executionNamespace=team' generic-webhook --set 'clusterWide=true,hook.extraVolumes[0].name=v,hook.extraVolumes[0].configMap.name=c'
refuse 'helm upgrade --install demo --namespace other' generic-webhook --set clusterWide=true,executionNamespace=other
refuse 'helm upgrade --install demo --namespace other' update-field --set clusterWide=true,executionNamespace=other
refuse 'clusterWide is false' update-field --set executionNamespace=team
refuse 's3.endpoint is needed' scanyard --set minio.enabled=false
refuse 's3.bucket is needed' scanyard --set minio.enabled=false,s3.endpoint=s3.example.com
refuse 'only one store can be used' scanyard --set s3.enabled=true
refuse 'speaks plain HTTP only' scanyard --set minio.tls.enabled=true
refuse 'no node can ever be drained' scanyard --set replicas=2,podDisruptionBudget.minAvailable=2
refuse 'nothing says where the records go' scanyard --set decisionExport.enabled=true
refuse '/decisionExport/sinks/0' scanyard --set 'decisionExport.enabled=true,decisionExport.sinks={grpcs://hub.example.com:9443}'
refuse "additional properties 'wrokers' not allowed" scanyard --set wrokers=3
refuse '/watchNamespaces/0' scanyard --set 'watchNamespaces={Team A}'
refuse '/scanPolicy/mode' scanyard --set scanPolicy.mode=on
refuse '/scanPolicy/secrets/0' scanyard --set "scanPolicy.secrets={it's}"
refuse '/statusPolicy/exempt/0' scanyard --set 'statusPolicy.exempt={velero}'
refuse "/presignedUrlExpirationTimes/hooks" scanyard --set presignedUrlExpirationTimes.hooks=1day
refuse 'all of them would write' auto-discovery-kubernetes --set replicas=2,config.leaderElection.leaderElect=false
refuse "additional properties 'scanConfig' not allowed" auto-discovery-kubernetes --set 'config.serviceAutoDiscovery.scanConfig[0].name=x'
refuse '/config/containerAutoDiscovery/passiveReconcileInterval' auto-discovery-kubernetes --set config.containerAutoDiscovery.passiveReconcileInterval=1day

refuse 'names no server' registry --set nats.external.enabled=true
refuse 'not one of adapters' registry --set defaultAdapter=mini
refuse 'no database of its own accord' registry --set 'adapters={grype},defaultAdapter=grype'
refuse 'which answers to no other name' console
refuse '/url' console --set url=http://console.example.com
refuse 'A proxy signs all people in, or none' console --set "$address,signIn.proxy.addresses={10.0.0.0/24},signIn.proxy.groups={a}"
refuse 'nobody would have a right' console --set "$address,signIn.tokens=false,signIn.proxy.addresses={10.0.0.0/24}"
refuse '/signIn/proxy/addresses/0' console --set "$address,signIn.tokens=false,signIn.proxy.addresses={0.0.0.0/0},signIn.proxy.groups={a}"
refuse '/signIn/proxy/groups/0' console --set "$address,signIn.tokens=false,signIn.proxy.addresses={10.0.0.0/24},signIn.proxy.groups={system:masters}"
refuse 'no name of the console at it' console --set "$address,signIn.oidc.issuer=https://id.example.com"
refuse 'one process only can use an SQLite file' reports --set replicas=2
refuse 'nothing says where it is' reports --set database.type=postgresql
refuse 'which needs none' reports --set database.existingSecret=db
refuse 'no issuer is named' reports --set tls.certManager.enabled=true
refuse '/takeOver' reports --set takeOver=maybe
refuse '/maxRequestBytes' reports --set maxRequestBytes=1
refuse '/database/type' reports --set database.type=oracle
refuse 'copies SQLite only' reports --set 'backup.schedule=@daily,database.type=postgresql,database.existingSecret=db'
refuse 'nothing says where the bucket is' reports --set backup.schedule=@daily,backup.s3.enabled=true
refuse 'no Secret has the keys' reports --set backup.schedule=@daily,backup.s3.enabled=true,backup.s3.endpoint=s3.example,backup.s3.bucket=copies
refuse '/backup/s3/authType' reports --set backup.s3.authType=none
refuse '/backup/keep' reports --set backup.keep=0

refuse "additional properties 'enable' not allowed" forwarding --set forwarder.enable=true
refuse '/clusterID' forwarding --set clusterID=east
refuse '/forwarder/workers' forwarding --set forwarder.workers=0
refuse '/operator/url' forwarding --set operator.url=http://scanyard:8443
refuse '/forwarder/proxy/url' forwarding --set forwarder.proxy.url=http://me:secret@proxy:3128
refuse '/forwarder/proxy/noProxy/0' forwarding --set 'forwarder.proxy.noProxy={a b}'
refuse 'both name a proxy' forwarding --set forwarder.proxy.url=http://proxy:3128,forwarder.proxy.secretName=proxy
refuse 'count with a proxy only' forwarding --set forwarder.proxy.caConfigMap=proxy-ca
refuse '/snippet/sinks/0' forwarding --set 'snippet.sinks={hub.example.com}'
refuse 'does not say where records go' forwarding --set exporter.enabled=true
refuse 'receiver.tls.secretName names a certificate' forwarding --set receiver.enabled=true,receiver.insecure=true,receiver.tls.secretName=x
refuse 'no Secret holds the authority of senders' forwarding --set receiver.enabled=true,receiver.tls.clientCA=true
refuse 'nothing says where records of that exporter go' forwarding --set snippet.enabled=true

refuse 'config.aws.queueUrl is empty' auto-discovery-cloud-aws
refuse 'each would know of half of the events' auto-discovery-cloud-aws --set "$queue,replicas=2,config.leaderElection.leaderElect=false"
refuse "additional properties 'queueURL' not allowed" auto-discovery-cloud-aws --set "$queue,config.aws.queueURL=x"
refuse '/config/aws/waitTime' auto-discovery-cloud-aws --set "$queue,config.aws.waitTime=20"

# What is said after the installation is a Scan that fits the release.
for example in */example.yaml; do
	chart=${example%/*}
	type=$(sed -n 's/^  scanType: //p' "$example")
	notes "scanType: $type" "$chart"
	notes 'resourceMode: clusterWide' "$chart" --set clusterWide=true
	notes "scanType: $type-privileged" "$chart" --set scanner.nameAppend=-privileged
done
notes 'create token ACCOUNT' console --set "$address"
notes 'scanyard reports migrate' reports
notes 'Nothing is installed yet' forwarding
notes 'endpoint: https://demo-forwarding-receiver.team.svc.cluster.local:9443' forwarding --set forwarder.enabled=true,receiver.enabled=true
notes 'serverCA: demo-forwarding-receiver-ca' forwarding --set forwarder.enabled=true,receiver.enabled=true
notes 'not durable across reschedule' forwarding --set 'exporter.enabled=true,exporter.persistence.enabled=false,exporter.config.sinks[0].name=hub'
notes '-snippet -o jsonpath' forwarding --set 'snippet.enabled=true,snippet.sinks={hub=grpcs://hub.example.com:9443}'
notes 'for trivy-k8s set serviceAccountNamespaces' trivy --set clusterWide=true
exit "$failed"
