// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/certificate"
	"github.com/scanyard/scanyard/operator/internal/exception/stamp"
	"github.com/scanyard/scanyard/operator/internal/webhook"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var (
	cluster *testcluster.Cluster
	sealer  = stamp.NewSealer([]byte("a key of all replicas"))
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) { cluster = c }))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// chartConfiguration is what the chart installs, but that the API server calls an address and no Service.
func chartConfiguration(t *testing.T, kind string, into any) {
	t.Helper()
	raw, err := os.ReadFile("../../../charts/internal/golden/scanyard.yaml")
	must(t, err)
	for document := range strings.SplitSeq(string(raw), "\n---\n") {
		if strings.Contains(document, "\nkind: "+kind+"\n") {
			must(t, yaml.UnmarshalStrict([]byte(document), into))
			return
		}
	}
	t.Fatal("the chart has no " + kind)
}

// at is where the API server calls instead of the chart's Service.
func at(address string, c *admissionregistrationv1.WebhookClientConfig) {
	url := "https://" + address + *c.Service.Path
	*c = admissionregistrationv1.WebhookClientConfig{URL: &url}
}

// serve installs the configuration, serves the API server, and returns once the configuration has the authority.
func serve(t *testing.T) (configuration string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "operator-"}}
	must(t, cluster.Client.Create(ctx, ns))
	cert, err := certificate.Ensure(ctx, cluster.Client, certificate.Request{
		Secret: client.ObjectKey{Namespace: ns.Name, Name: "tls"}, Host: "127.0.0.1", Purpose: "test",
	}, time.Now())
	must(t, err)
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	must(t, err)
	mux := http.NewServeMux()
	mux.Handle(webhook.Path, webhook.NewHandler(webhook.Checks(cluster.Client, clock.RealClock{}, sealer), nil))
	mux.Handle(webhook.StampPath, webhook.NewStamper(sealer, clock.RealClock{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert.TLS}, MinVersion: tls.VersionTLS12}}
	ended := make(chan error, 2)
	go func() { ended <- server.ServeTLS(l, "", "") }()
	config, stamping := &admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{}
	chartConfiguration(t, "ValidatingWebhookConfiguration", config)
	chartConfiguration(t, "MutatingWebhookConfiguration", stamping)
	at(l.Addr().String(), &config.Webhooks[0].ClientConfig)
	at(l.Addr().String(), &stamping.Webhooks[0].ClientConfig)
	must(t, cluster.Client.Create(ctx, config))
	must(t, cluster.Client.Create(ctx, stamping))

	mgr, err := ctrl.NewManager(cluster.Config, ctrl.Options{
		Scheme: cluster.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:      cache.Options{ByObject: webhook.CacheOptions(config.Name)},
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	must(t, err)
	must(t, (&webhook.Authority{Client: mgr.GetClient(), Name: config.Name, CA: []byte(cert.CA)}).SetupWithManager(mgr))
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		must(t, client.IgnoreNotFound(cluster.Client.Delete(context.WithoutCancel(ctx), config)))
		must(t, client.IgnoreNotFound(cluster.Client.Delete(context.WithoutCancel(ctx), stamping)))
		cancel()
		must(t, server.Close())
		for range cap(ended) {
			if err := <-ended; err != nil && !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		}
	})
	eventually(t, "the authority is in both configurations", func() bool {
		must(t, cluster.Client.Get(ctx, client.ObjectKeyFromObject(config), config))
		must(t, cluster.Client.Get(ctx, client.ObjectKeyFromObject(stamping), stamping))
		return string(config.Webhooks[0].ClientConfig.CABundle) == cert.CA && string(stamping.Webhooks[0].ClientConfig.CABundle) == cert.CA
	})
	// The API server notices a configuration a moment after it was written.
	eventually(t, "the API server asks", func() bool {
		return apierrors.IsInvalid(cluster.Client.Create(ctx, object(t, ns.Name, rule(`{"expression": "1"}`)), client.DryRunAll))
	})
	eventually(t, "the API server has exceptions stamped", func() bool {
		e := object(t, ns.Name, excepted("FindingException", `{"names": ["a"]}`, "2099-01-01T00:00:00Z"))
		must(t, cluster.Client.Create(ctx, e, client.DryRunAll))
		return e.GetAnnotations()[stamp.Annotation] != ""
	})
	return config.Name, func() { must(t, server.Close()) }
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("not within a minute: " + what)
		}
	}
}

func rule(matches string) string {
	return `{"apiVersion": "cascading.securecodebox.io/v1", "kind": "CascadingRule", "spec": {"matches": ` + matches + `, "scanSpec": {"scanType": "nmap", "parameters": ["{{location}}"]}}}`
}

func scheduled(spec string) string {
	return `{"apiVersion": "execution.securecodebox.io/v1", "kind": "ScheduledScan", "spec": {"scanSpec": {"scanType": "nmap", "parameters": ["localhost"]}, ` + spec + `}}`
}

func scanOf(target, metadata string) string {
	return `{"apiVersion": "execution.securecodebox.io/v1", "kind": "Scan", "metadata": {` + metadata + `}, "spec": {"scanType": "nmap", "parameters": ["` + target + `"]}}`
}

func setting(kind, spec string) string {
	return `{"apiVersion": "settings.scanyard.io/v1alpha2", "kind": "` + kind + `", "spec": ` + spec + `}`
}

// object reads JSON and gives it a name that the API server makes up.
func object(t *testing.T, namespace, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	must(t, json.Unmarshal([]byte(text), &o.Object))
	if strings.HasSuffix(o.GetKind(), "ScanSetting") {
		o.SetName(settingsv1alpha2.Name)
	} else {
		o.SetGenerateName("x-")
	}
	if !strings.HasPrefix(o.GetKind(), "Cluster") {
		o.SetNamespace(namespace)
	}
	return o
}

func TestMistakesAreRefused(t *testing.T) {
	serve(t)
	bounds := object(t, "", setting("ClusterScanSetting", `{"limits": {"maxRunningPerNamespace": 3}, "targetScope": {"denied": ["10.0.0.0/8"]}}`))
	must(t, cluster.Client.Create(t.Context(), bounds))
	t.Cleanup(func() { must(t, cluster.Client.Delete(context.WithoutCancel(t.Context()), bounds)) })
	cases := map[string]struct{ object, says string }{
		"SinkWithoutAllowance": {setting("ScanSetting", `{"resultForwarding": {"provider": "grpc", "grpc": {"endpoint": "h:1"}}}`), "or ask the cluster admin"},
		"SinkOfNowhere":        {setting("ClusterScanSetting", `{"resultForwarding": {"provider": "grpc", "grpc": {"endpoint": "https://u:p@h:1"}}}`), "such as https://compliance.example.com:443"},
		"GoodRule":             {rule(`{"anyOf": [{"category": "Open Port"}], "expression": "finding.attributes.port > 1024"}`), ""},
		"RuleWithWrongField":   {rule(`{"expression": "finding.categry == 'Open Port'"}`), `spec.matches.expression: Invalid value: a finding has no field "categry"`},
		"RuleOfText":           {rule(`{"expression": "finding.category"}`), ""},
		"RuleOfNumber":         {rule(`{"expression": "1 + 1"}`), "the expression yields int, want bool"},
		"RuleOfNonsense":       {rule(`{"expression": "finding.category =="}`), "spec.matches.expression: Invalid value: ERROR"},
		"RuleForTheCluster":    {strings.Replace(rule(`{"expression": "1 + 1"}`), "CascadingRule", "ClusterCascadingRule", 1), "the expression yields int, want bool"},
		"RuleWithTemplate":     {strings.Replace(rule(`{}`), "{{location}}", "{{#location}}", 1), "parameters[0]"},
		"GoodSchedule":         {scheduled(`"schedule": "0 3 * * *", "timeZone": "Europe/Berlin"`), ""},
		"Interval":             {scheduled(`"interval": "12h"`), ""},
		"CronTypo":             {scheduled(`"schedule": "0 25 * * *"`), `spec.schedule "0 25 * * *" is not a cron expression`},
		"GoodSetting":          {setting("ScanSetting", `{"limits": {"maxRunning": 2}}`), ""},
		"SettingBeyondCluster": {setting("ScanSetting", `{"limits": {"maxRunning": 4}}`), "spec.limits.maxRunning: Invalid value: 4"},
		"PatchOfNonsense":      {setting("ScanSetting", `{"jobPatches": [{"patch": "spec:\n  template: [\n"}]}`), "spec.jobPatches[0].patch"},
		"PatchOfOwner":         {setting("ClusterScanSetting", `{"jobPatches": [{"patch": "[{\"op\": \"remove\", \"path\": \"/metadata/ownerReferences\"}]"}]}`), "spec.jobPatches[0].patch"},
		"PatchForNothing":      {setting("ScanSetting", `{"jobPatches": [{"target": {"scanTypes": ["nmpa"]}, "patch": "metadata: {labels: {a: b}}"}]}`), "spec.jobPatches[0].target.scanTypes: Invalid value: \"nmpa\": matches nothing"},
		"GoodException":        {excepted("FindingException", `{"names": ["Open Port: *"]}`, "2099-01-01T00:00:00Z"), ""},
		"ExceptionOfAll":       {excepted("FindingException", `{"names": ["*"]}`, "2099-01-01T00:00:00Z"), "spec.match.anyOf[0].names[0]: Invalid value: a glob of * alone"},
		"ExceptionThatEnded":   {excepted("FindingException", `{"names": ["a"]}`, "2020-01-01T00:00:00Z"), "spec.expiresAt: Invalid value: must be later than now, which is "},
		"ExceptionOfNonsense":  {excepted("ClusterFindingException", `{"expression": "finding.nam == 'a'"}`, "2099-01-01T00:00:00Z"), `spec.match.anyOf[0].expression: Invalid value: a finding has no field "nam"`},
		"ExceptionOfPackage":   {excepted("ClusterFindingException", `{"packages": ["pkg:npm/a?vers=vers:npm/<b"]}`, "2099-01-01T00:00:00Z"), "spec.match.anyOf[0].packages[0]: Invalid value"},
		"WideOfTheCluster":     {excepted("ClusterFindingException", `{"references": ["CVE-2026-1"], "products": ["*"]}`, "2099-01-01T00:00:00Z"), ""},
		"UnknownZone":          {scheduled(`"schedule": "0 3 * * *", "timeZone": "Europe/Berln"`), "use an IANA name such as Europe/Berlin"},
		"GoodScan":             {scanOf("192.0.2.7", ""), ""},
		"ScanOfDeniedTarget":   {scanOf("10.0.0.7", ""), `spec.parameters[0]: target "10.0.0.7" is denied by "10.0.0.0/8" (spec.targetScope.denied of the ClusterScanSetting)`},
		"CascadedScan":         {scanOf("10.0.0.7", `"ownerReferences": [{"apiVersion": "execution.securecodebox.io/v1", "kind": "Scan", "name": "parent", "uid": "u"}]`), ""},
		"ScheduleOfDenied":     {strings.Replace(scheduled(`"interval": "12h"`), "localhost", "10.0.0.7", 1), "spec.scanSpec.parameters[0]: target"},
		"ScopeOfNonsense":      {setting("ScanSetting", `{"targetScope": {"allowed": ["https://example.com"]}}`), "spec.targetScope.allowed[0]: Invalid value"},
		"WindowTypo":           {scheduled(`"interval": "12h", "windows": [{"schedule": "0 25 * * *", "duration": "1h"}]`), `spec.windows[0].schedule "0 25 * * *" is not a cron expression`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := object(t, "default", tc.object)
			err := cluster.Client.Create(t.Context(), o, client.DryRunAll)
			if apierrors.IsAlreadyExists(err) {
				o.SetResourceVersion(bounds.GetResourceVersion())
				err = cluster.Client.Update(t.Context(), o, client.DryRunAll)
			}
			switch {
			case tc.says == "" && err != nil:
				t.Error(err)
			case tc.says != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.says)):
				t.Errorf("%v, want a refusal that says %s", err, tc.says)
			}
		})
	}
}

// TestUpdateOfStoredRule is about mistakes from before there was admission.
// excepted is an exception with one entry.
func excepted(kind, entry, end string) string {
	return `{"apiVersion": "settings.scanyard.io/v1alpha2", "kind": "` + kind + `", "metadata": {"name": "x"}, "spec": {"status": "Accepted",
		"reason": "until the next release", "expiresAt": "` + end + `", "match": {"anyOf": [` + entry + `]}}}`
}

// The end of an exception that is there can be set to a time that is over: so it is ended.
func TestExceptionCanBeEnded(t *testing.T) {
	serve(t)
	e := object(t, "default", excepted("FindingException", `{"names": ["a"]}`, "2099-01-01T00:00:00Z"))
	must(t, cluster.Client.Create(t.Context(), e))
	t.Cleanup(func() { must(t, cluster.Client.Delete(context.WithoutCancel(t.Context()), e)) })
	must(t, unstructured.SetNestedField(e.Object, "2020-01-01T00:00:00Z", "spec", "expiresAt"))
	must(t, cluster.Client.Update(t.Context(), e))
}

func TestUpdateOfStoredRule(t *testing.T) {
	stored := object(t, "default", rule(`{"expression": "1 + 1"}`))
	must(t, cluster.Client.Create(t.Context(), stored))
	serve(t)
	stored.SetLabels(map[string]string{"a": "b"})
	must(t, cluster.Client.Update(t.Context(), stored))
	must(t, unstructured.SetNestedField(stored.Object, "2 + 2", "spec", "matches", "expression"))
	if err := cluster.Client.Update(t.Context(), stored); !apierrors.IsInvalid(err) {
		t.Errorf("a new mistake is let pass: %v", err)
	}
	must(t, unstructured.SetNestedField(stored.Object, "2 > 1", "spec", "matches", "expression"))
	must(t, cluster.Client.Update(t.Context(), stored))
	must(t, cluster.Client.Delete(t.Context(), stored))
}

// TestRequestsPassWithoutOperator: a dead operator stops no user's work.
func TestRequestsPassWithoutOperator(t *testing.T) {
	_, stop := serve(t)
	stop()
	must(t, cluster.Client.Create(t.Context(), object(t, "default", rule(`{"expression": "1 + 1"}`)), client.DryRunAll))
}

// TestAuthorityIsWrittenAgain: another client has replaced the configuration.
func TestAuthorityIsWrittenAgain(t *testing.T) {
	name, _ := serve(t)
	var config admissionregistrationv1.ValidatingWebhookConfiguration
	key := client.ObjectKey{Name: name}
	must(t, cluster.Client.Get(t.Context(), key, &config))
	good := string(config.Webhooks[0].ClientConfig.CABundle)
	config.Webhooks[0].ClientConfig.CABundle = nil
	must(t, cluster.Client.Update(t.Context(), &config))
	eventually(t, "the authority is written again", func() bool {
		must(t, cluster.Client.Get(t.Context(), key, &config))
		return string(config.Webhooks[0].ClientConfig.CABundle) == good
	})
}
