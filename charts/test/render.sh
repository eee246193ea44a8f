#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Renders every chart in several ways and compares the outcome with golden/. With --update it writes golden/ instead.
# Then it tries what the charts must refuse, and looks for the words of the advice.
set -eu
cd "$(dirname "$0")/.."
helm=${HELM:-helm}
failed=0

render() { # name chart flags...
	name=$1 chart=$2
	shift 2
	out=$("$helm" template demo "$chart" --namespace team "$@") || { echo "FAIL $name: does not render"; failed=1; return; }
	if [ "${update:-}" ]; then
		printf '%s\n' "$out" >"golden/$name.yaml"
	elif printf '%s\n' "$out" | diff -u "golden/$name.yaml" -; then
		echo "ok   $name"
	else
		echo "FAIL $name: differs from golden/$name.yaml"
		failed=1
	fi
}

refuse() { # words chart flags...
	words=$1 chart=$2
	shift 2
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

[ "${1:-}" != --update ] || update=1

password='minio.auth.rootPassword=not-a-secret'
render scanyard scanyard --set "$password"
render scanyard-s3 scanyard --set minio.enabled=false,s3.enabled=true,s3.port=9000,s3.region=eu-central-1,s3.pathStyle=false \
	--set customCACertificate.existingCertificate=ca --set-string 's3.urlTemplate=scans/{{ .Scan.UID }}/{{ .Filename }}'
render scanyard-aws scanyard --set minio.enabled=false,s3.authType=aws-iam,s3.endpoint=s3.amazonaws.com
render scanyard-full scanyard --set "$password" --set replicas=2,networkPolicy.enabled=true,metrics.serviceMonitor.enabled=true \
	--set uploadEndpoint.enabled=false,rbac.userRoles.prefix=scanyard-,rbac.userRoles.aggregate=false,clusterDomain=corp.example \
	--set 'podLabels.team=sec,podAnnotations.note=x,priorityClassName=high,tolerations[0].operator=Exists,extraArgs[0]=--zap-log-level=1'
for chart in nmap gitleaks test-scan generic-webhook update-field; do
	render "$chart" "$chart"
	render "$chart-cluster" "$chart" --set clusterWide=true
done
render nmap-rules nmap --set cascadingRules.enabled=true
render nmap-rules-cluster nmap --set cascadingRules.enabled=true,clusterWide=true
render nmap-full nmap --set scanner.nameAppend=-privileged,scanner.activeDeadlineSeconds=3600,scanner.ttlSecondsAfterFinished=0,scanner.suspend=true \
	--set 'imagePullSecrets[0].name=pull,scanner.env[0].name=A,scanner.env[0].value=b,scanner.extraVolumes[0].name=v' \
	--set 'scanner.extraVolumes[0].configMap.name=c,scanner.extraVolumeMounts[0].name=v,scanner.extraVolumeMounts[0].mountPath=/v' \
	--set 'scanner.extraContainers[0].name=side,scanner.extraContainers[0].image=x,scanner.podSecurityContext.fsGroup=1' \
	--set parser.image.repository=docker.io/securecodebox/parser-nmap,parser.image.tag=5.8.0,parser.ttlSecondsAfterFinished=60 \
	--set 'parser.tolerations[0].operator=Exists,parser.scopeLimiterAliases.domain=x'
render generic-webhook-execution generic-webhook --set clusterWide=true,executionNamespace=team,hook.priority=3,hook.labels.tier=one \
	--set 'hook.env[0].name=A,hook.env[0].valueFrom.configMapKeyRef.name=b,hook.env[0].valueFrom.configMapKeyRef.key=c'
[ "${update:-}" ] && { echo 'golden/ is rewritten'; exit 0; }

refuse 'one namespace only' nmap --set 'clusterWide=true,scanner.extraVolumes[0].name=v,scanner.extraVolumes[0].configMap.name=c'
refuse 'one namespace only' nmap --set 'clusterWide=true,scanner.extraVolumes[0].name=v,scanner.extraVolumes[0].projected.sources[0].configMap.name=c'
refuse 'one namespace only' nmap --set 'clusterWide=true,scanner.envFrom[0].configMapRef.name=c'
refuse 'parser.env' gitleaks --set 'clusterWide=true,parser.env[0].name=A,parser.env[0].valueFrom.configMapKeyRef.name=c'
refuse '--set executionNamespace=team' generic-webhook --set 'clusterWide=true,hook.extraVolumes[0].name=v,hook.extraVolumes[0].configMap.name=c'
refuse 'helm upgrade --install demo --namespace other' generic-webhook --set clusterWide=true,executionNamespace=other
refuse 'helm upgrade --install demo --namespace other' update-field --set clusterWide=true,executionNamespace=other
refuse 'clusterWide is false' update-field --set executionNamespace=team
refuse 'only one store can be used' scanyard --set s3.enabled=true
refuse 'speaks plain HTTP only' scanyard --set minio.tls.enabled=true
refuse 'no node can ever be drained' scanyard --set replicas=2,podDisruptionBudget.minAvailable=2
refuse "additional properties 'wrokers' not allowed" scanyard --set wrokers=3
refuse "/presignedUrlExpirationTimes/hooks" scanyard --set presignedUrlExpirationTimes.hooks=1day
exit "$failed"
