// SPDX-License-Identifier: Apache-2.0

package targets

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/discovery/kubernetes/config"
)

const (
	digestA = "18e373fd73e7a5388d7ea73736dc5b2ab90c508166bb6fec1097aa5b24e5dbfe"
	digestB = "cfdc61a722d772da106ca4716a81531c49d953cbc2ae16aeb34d6e35f473aa10"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// load reads a configuration in which everything is included.
func load(t *testing.T, text string) *config.Compiled {
	t.Helper()
	c, err := config.Load("auto-discovery.yaml", []byte("resourceInclusion: {mode: all}\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func viewOf(change ...func(*Observation)) *Observation {
	v := &Observation{
		Now: epoch, Namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "blue"}}},
		ScanTypes:        map[string]sets.Set[string]{"shop": sets.New("nmap", "trivy"), "scans": sets.New("nmap", "trivy")},
		ClusterScanTypes: sets.New("nmap"), Existing: map[types.NamespacedName]*Existing{},
	}
	for _, f := range change {
		f(v)
	}
	return v
}

func serviceOf(name string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("svc-" + name)},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: ports},
	}
}

func podOf(name, app, image, imageID string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "main", Ready: true, Image: image, ImageID: imageID},
		}},
	}
}

func withService(p *corev1.Pod, ports ...corev1.ServicePort) func(*Observation) {
	return func(v *Observation) {
		v.Services = append(v.Services, serviceOf(p.Labels["app"], ports...))
		v.Pods = append(v.Pods, p)
	}
}

func withPods(pods ...*corev1.Pod) func(*Observation) {
	return func(v *Observation) { v.Pods = append(v.Pods, pods...) }
}

// withExisting holds what a plan has made.
func withExisting(p Decision, change ...func(*Existing)) func(*Observation) {
	return func(v *Observation) {
		for _, c := range p.Changes {
			e := &Existing{ScheduledScan: c.Want.DeepCopy(), Ours: true}
			for _, f := range change {
				f(e)
			}
			v.Existing[c.Key] = e
		}
	}
}

// written is what a plan would write, in words.
func written(p Decision) []string {
	all := []string{}
	for _, c := range p.Changes {
		what := string(c.Action) + " " + c.Key.Name
		if c.Key.Namespace != "shop" {
			what = string(c.Action) + " " + c.Key.String()
		}
		if c.Restart {
			what += " restart"
		}
		all = append(all, what)
	}
	return all
}

// said are the results of a plan, in words.
func said(p Decision) []string {
	all := []string{}
	for _, v := range p.Results {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", v.Name, v.Outcome, v.Reason)))
	}
	return all
}

func want(t *testing.T, what string, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

const (
	services = "serviceAutoDiscovery: {enabled: true, scanConfigs: [{name: nmap, scanType: nmap, repeatInterval: 24h, parameters: ['{{ .Host.Type }}:{{ .Host.Port }}']}]%s}\n"
	images   = "containerAutoDiscovery: {enabled: true, scanConfigs: [{name: trivy, scanType: trivy, repeatInterval: 24h, parameters: ['{{ .ImageID }}']}]%s}\n"
)

func servicesWith(more string) string { return fmt.Sprintf(services, more) }

func imagesWith(more string) string { return fmt.Sprintf(images, more) }

// TestDigestsOfEveryRuntime: the version of a Service is known whatever runs its pods.
func TestDigestsOfEveryRuntime(t *testing.T) {
	cases := map[string]struct{ before, after string }{
		"Docker":          {"docker-pullable://a/shop@sha256:" + digestA, "docker-pullable://a/shop@sha256:" + digestB},
		"DockerBuilt":     {"docker://sha256:" + digestA, "docker://sha256:" + digestB},
		"Containerd":      {"docker.io/a/shop@sha256:" + digestA, "docker.io/a/shop@sha256:" + digestB},
		"ContainerdBare":  {"sha256:" + digestA, "sha256:" + digestB},
		"CRIO":            {"quay.io:443/a/shop@sha256:" + digestA, "quay.io:443/a/shop@sha256:" + digestB},
		"CRIODigitsAlone": {digestA, digestB},
	}
	c := load(t, servicesWith(""))
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			port := corev1.ServicePort{Port: 80}
			first := Decide(viewOf(withService(podOf("p", "shop", "a/shop:1", tc.before), port)), c)
			want(t, "first", []string{"create shop-service-nmap-port-80"}, written(first))
			if got := first.Changes[0].Want.Labels[DigestPrefix+"main"]; got != digestA[:63] {
				t.Errorf("digest label %q", got)
			}
			again := Decide(viewOf(withService(podOf("p", "shop", "a/shop:1", tc.before), port), withExisting(first)), c)
			want(t, "again", []string{}, written(again))
			second := Decide(viewOf(withService(podOf("p", "shop", "a/shop:1", tc.after), port), withExisting(first)), c)
			want(t, "new version", []string{"update shop-service-nmap-port-80 restart"}, written(second))
		})
	}
}

// TestImages: which images are scanned, and by which name scanners find them.
func TestImages(t *testing.T) {
	repo := "docker.io/a/shop@sha256:" + digestA
	cases := map[string]struct {
		more      string
		pods      []*corev1.Pod
		want      []string
		parameter string
		says      string
	}{
		"Repository":      {pods: []*corev1.Pod{podOf("p", "a", "a/shop:1", repo)}, want: []string{"create shop-trivy-at-" + digestA[:48]}, parameter: repo},
		"DockerPullable":  {pods: []*corev1.Pod{podOf("p", "a", "a/shop:1", "docker-pullable://"+repo)}, want: []string{"create shop-trivy-at-" + digestA[:48]}, parameter: repo},
		"BareIsSkipped":   {pods: []*corev1.Pod{podOf("p", "a", "a/shop:1", "sha256:"+digestA)}, want: []string{}, says: "a/shop:1 Skipped NoDigest"},
		"BareByTag":       {more: ", imagesWithoutDigest: ScanByTag", pods: []*corev1.Pod{podOf("p", "a", "reg:5000/a/shop:1", "sha256:"+digestA)}, want: []string{"create shop-trivy-at-" + digestA[:48]}, parameter: "reg:5000/a/shop:1"},
		"NoVersion":       {pods: []*corev1.Pod{podOf("p", "a", "a/shop:1", "sim")}, want: []string{}, says: "a/shop:1 Skipped NoDigest"},
		"NotStarted":      {pods: []*corev1.Pod{podOf("p", "a", "a/shop:1", "")}, want: []string{}, says: "a/shop:1 Waiting ImageUnknown"},
		"WithoutRegistry": {pods: []*corev1.Pod{podOf("p", "a", "shop", "shop@sha256:"+digestA)}, want: []string{"create shop-trivy-at-" + digestA[:48]}, parameter: "shop@sha256:" + digestA},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := Decide(viewOf(withPods(tc.pods...)), load(t, imagesWith(tc.more)))
			want(t, "written", tc.want, written(p))
			if tc.parameter != "" {
				want(t, "parameters", []string{tc.parameter}, p.Changes[0].Want.Spec.ScanSpec.Parameters)
			}
			if tc.says != "" && !slices.Contains(said(p), tc.says) {
				t.Errorf("results %q, want %q", said(p), tc.says)
			}
		})
	}
}

// TestInitAndEphemeralContainers count where they are switched on.
func TestInitAndEphemeralContainers(t *testing.T) {
	p := podOf("p", "a", "a/shop:1", "a/shop@sha256:"+digestA)
	p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "a/init:1"}}
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", ImageID: "a/init@sha256:" + digestA}}
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "a/debug:1"}}}
	p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "debug", ImageID: "a/debug@sha256:" + digestA}}
	main, init, debug := "create shop-trivy-at-"+digestA[:48], "create init-trivy-at-"+digestA[:48], "create debug-trivy-at-"+digestA[:47]
	for more, all := range map[string][]string{
		"": {main}, ", initContainers: true": {init, main}, ", ephemeralContainers: true": {debug, main},
		", initContainers: true, ephemeralContainers: true": {debug, init, main},
	} {
		want(t, more, all, written(Decide(viewOf(withPods(p)), load(t, imagesWith(more)))))
	}
}

// TestPorts: which ports are targets, and what is spoken there.
func TestPorts(t *testing.T) {
	h2c, app := "kubernetes.io/h2c", "https"
	cases := map[string]struct {
		more string
		port corev1.ServicePort
		want string
	}{
		"Default":             {"", corev1.ServicePort{Port: 8080}, "http:8080"},
		"DefaultTLS":          {"", corev1.ServicePort{Port: 8443}, "https:8443"},
		"ByName":              {"", corev1.ServicePort{Port: 9000, Name: "https"}, "https:9000"},
		"Other":               {"", corev1.ServicePort{Port: 9000, Name: "grpc"}, ""},
		"OwnNumbers":          {", ports: {http: [9000], https: [9443]}", corev1.ServicePort{Port: 9443}, "https:9443"},
		"OwnNumbersReplace":   {", ports: {http: [9000]}", corev1.ServicePort{Port: 80}, ""},
		"OwnNames":            {", ports: {httpNames: [web]}", corev1.ServicePort{Port: 9000, Name: "web"}, "http:9000"},
		"AppProtocolOff":      {"", corev1.ServicePort{Port: 9000, AppProtocol: &app}, ""},
		"AppProtocol":         {", ports: {appProtocols: true}", corev1.ServicePort{Port: 9000, AppProtocol: &app}, "https:9000"},
		"AppProtocolH2C":      {", ports: {appProtocols: true}", corev1.ServicePort{Port: 9000, AppProtocol: &h2c}, "http:9000"},
		"All":                 {", ports: {all: true}", corev1.ServicePort{Port: 22}, "http:22"},
		"ExcludeNumber":       {", ports: {all: true, exclude: [22]}", corev1.ServicePort{Port: 22}, ""},
		"ExcludeName":         {", ports: {exclude: [http]}", corev1.ServicePort{Port: 80, Name: "http"}, ""},
		"AnyProtocol":         {"", corev1.ServicePort{Port: 443, Protocol: corev1.ProtocolUDP}, "https:443"},
		"ProtocolOfTheFilter": {", ports: {protocols: [TCP]}", corev1.ServicePort{Port: 443, Protocol: corev1.ProtocolUDP}, ""},
		"NoProtocolIsTCP":     {", ports: {protocols: [TCP]}", corev1.ServicePort{Port: 443}, "https:443"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := Decide(viewOf(withService(podOf("p", "shop", "a", "a@sha256:"+digestA), tc.port)), load(t, servicesWith(tc.more)))
			got := ""
			if len(p.Changes) > 0 {
				got = p.Changes[0].Want.Spec.ScanSpec.Parameters[0]
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestSelectors: namespaces, targets and ports that a scanConfig is for.
func TestSelectors(t *testing.T) {
	with := func(more string) string {
		return "serviceAutoDiscovery: {enabled: true, scanConfigs: [{name: nmap, scanType: nmap, repeatInterval: 24h, " + more + "}]}\n"
	}
	cases := map[string]struct {
		text string
		want int
		says string
	}{
		"None":               {with(""), 2, "shop Scanned"},
		"Namespace":          {with("namespaceSelector: {matchLabels: {team: blue}}"), 2, "shop Scanned"},
		"OtherNamespace":     {with("namespaceSelector: {matchLabels: {team: red}}"), 0, "shop Skipped NotSelected"},
		"Target":             {with("targetSelector: {matchExpressions: [{key: tier, operator: Exists}]}"), 0, "shop Skipped NotSelected"},
		"Port":               {with("ports: [https]"), 1, "shop Scanned"},
		"PortNumber":         {with("ports: [80, 12]"), 1, "shop Scanned"},
		"NoPort":             {with("ports: [12]"), 0, ""},
		"NamespaceExcluded":  {"resourceInclusion: {mode: all, namespaceSelector: {matchLabels: {team: red}}}\n" + with(""), 0, "shop Skipped NamespaceNotSelected"},
		"NoScanConfigsAtAll": {"serviceAutoDiscovery: {enabled: true}\n", 0, "shop Skipped NoScanConfig"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(tc.text, "resourceInclusion") {
				tc.text = "resourceInclusion: {mode: all}\n" + tc.text
			}
			c, err := config.Load("c.yaml", []byte(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			v := viewOf(withService(podOf("p", "shop", "a", "a@sha256:"+digestA), corev1.ServicePort{Port: 80, Name: "http"}, corev1.ServicePort{Port: 443, Name: "https"}))
			p := Decide(v, c)
			if len(p.Changes) != tc.want {
				t.Errorf("written: %q", written(p))
			}
			if tc.says != "" && !slices.Contains(said(p), tc.says) {
				t.Errorf("results %q, want %q", said(p), tc.says)
			}
		})
	}
}

// TestTargetNamespace: names, owners and secrets do not cross namespaces.
func TestTargetNamespace(t *testing.T) {
	text := strings.ReplaceAll(imagesWith(", imagePullSecretConfig: {mapImagePullSecretsToEnvironmentVariables: true, usernameEnvironmentVariableName: U, passwordEnvironmentVariableName: P}")+servicesWith(""),
		"repeatInterval: 24h", "repeatInterval: 24h, targetNamespace: scans")
	pod := podOf("p", "shop", "a/shop", "a/shop@sha256:"+digestA)
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "regcred"}}
	p := Decide(viewOf(withService(pod, corev1.ServicePort{Port: 80})), load(t, text))
	want(t, "written", []string{"create scans/" + inNamespace("shop", "shop-service-nmap-port-80", 240), "create scans/" + inNamespace("shop", "shop-trivy-at-"+digestA[:48], 62)}, written(p))
	for _, c := range p.Changes {
		o := c.Want
		if len(o.OwnerReferences) > 0 || o.Labels[LabelSourceNamespace] != "shop" || len(o.Spec.ScanSpec.Volumes) > 0 || len(o.Name) > 240 {
			t.Errorf("%s: owners %v, labels %v, volumes %v", o.Name, o.OwnerReferences, o.Labels, o.Spec.ScanSpec.Volumes)
		}
	}
	gone := Decide(viewOf(withExisting(p)), load(t, text))
	if got := written(gone); len(got) != 2 || !strings.HasPrefix(got[0], "delete scans/") {
		t.Errorf("what no owner removes: %q", got)
	}
}

// TestNamespacesDoNotShareNames: what is joined by dashes is not one. Without a hash, "web" of team-a and "a-web" of
// team would take turns in one ScheduledScan.
func TestNamespacesDoNotShareNames(t *testing.T) {
	a := inNamespace("team-a", serviceScanName("web", "nmap", 80), maxServiceScanName)
	b := inNamespace("team", serviceScanName("a-web", "nmap", 80), maxServiceScanName)
	if a == b || !strings.HasPrefix(a, "team-a-web-service-nmap-port-80-") {
		t.Errorf("%s and %s", a, b)
	}
}

// TestNameOfAnotherNamespace: what is for another namespace is not touched, wherever it is.
func TestNameOfAnotherNamespace(t *testing.T) {
	service := withService(podOf("p", "shop", "a", "a@sha256:"+digestA), corev1.ServicePort{Port: 80})
	elsewhere := strings.ReplaceAll(servicesWith(""), "repeatInterval: 24h", "repeatInterval: 24h, targetNamespace: scans")
	for what, tc := range map[string]struct {
		key  types.NamespacedName
		text string
	}{
		"InTheTarget": {types.NamespacedName{Namespace: "scans", Name: inNamespace("shop", "shop-service-nmap-port-80", maxServiceScanName)}, elsewhere},
		"InItsOwn":    {types.NamespacedName{Namespace: "shop", Name: "shop-service-nmap-port-80"}, servicesWith("")},
	} {
		v := viewOf(service)
		v.Taken = map[types.NamespacedName]string{tc.key: "other"}
		p := Decide(v, load(t, tc.text))
		want(t, what, []string{}, written(p))
		want(t, what, []string{"shop Skipped NameTaken"}, said(p))
	}
}

// TestNamesOfEarlierVersions: what was made under a name without a hash is taken over, and not doubled.
func TestNamesOfEarlierVersions(t *testing.T) {
	c := load(t, strings.ReplaceAll(servicesWith(""), "repeatInterval: 24h", "repeatInterval: 24h, targetNamespace: scans"))
	service := withService(podOf("p", "shop", "a", "a@sha256:"+digestA), corev1.ServicePort{Port: 80})
	fresh := Decide(viewOf(service), c)
	former := types.NamespacedName{Namespace: "scans", Name: "shop-shop-service-nmap-port-80"}
	old := func(change func(*Existing)) func(*Observation) {
		return func(v *Observation) {
			o := fresh.Changes[0].Want.DeepCopy()
			o.Name = former.Name
			v.Existing[former] = &Existing{ScheduledScan: o, Ours: true}
			change(v.Existing[former])
		}
	}
	want(t, "as it was", []string{}, written(Decide(viewOf(service, old(func(*Existing) {})), c)))
	want(t, "to be changed", []string{"update scans/" + former.Name}, written(Decide(viewOf(service, old(func(e *Existing) { e.Spec.ScanSpec.Parameters = []string{"x"} })), c)))
	want(t, "without its target", []string{"delete scans/" + former.Name}, written(Decide(viewOf(old(func(*Existing) {})), c)))
	want(t, "of another client", []string{"create scans/" + inNamespace("shop", "shop-service-nmap-port-80", maxServiceScanName)}, written(Decide(viewOf(service, old(func(e *Existing) { e.Ours = false })), c)))
}

// TestClusterWide uses the Cluster* kinds only.
func TestClusterWide(t *testing.T) {
	text := strings.ReplaceAll(servicesWith(""), "repeatInterval: 24h", "repeatInterval: 24h, resourceMode: clusterWide")
	v := viewOf(withService(podOf("p", "shop", "a", "a@sha256:"+digestA), corev1.ServicePort{Port: 80}))
	v.ScanTypes = nil
	p := Decide(v, load(t, text))
	want(t, "written", []string{"create shop-service-nmap-port-80"}, written(p))
	if mode := p.Changes[0].Want.Spec.ScanSpec.ResourceMode; mode == nil || *mode != executionv1.ClusterWide {
		t.Error("the Scans are not clusterWide")
	}
	v.ScanTypes, v.ClusterScanTypes = map[string]sets.Set[string]{"shop": sets.New("nmap")}, nil
	p = Decide(v, load(t, text))
	if len(p.Changes) > 0 || len(p.Missing) != 1 || !strings.HasPrefix(p.Missing[0].Message(), "Cluster requires ClusterScanType 'nmap'") {
		t.Errorf("written %q, missing %v", written(p), p.Missing)
	}
}

// TestUnwanted: what is removed, when, and what is not.
func TestUnwanted(t *testing.T) {
	all := servicesWith("") + imagesWith("")
	pod := podOf("p", "shop", "a/shop:1", "a/shop@sha256:"+digestA)
	port := corev1.ServicePort{Port: 80}
	first := Decide(viewOf(withService(pod, port)), load(t, all))
	image, service := "shop-trivy-at-"+digestA[:48], "shop-service-nmap-port-80"
	key := types.NamespacedName{Namespace: "shop", Name: image}
	starting := podOf("q", "shop", "registry.example.com/a/shop:1", "")
	starting.Status.ContainerStatuses[0].Ready = false
	foreign := func(e *Existing) { e.Ours = false }
	upstream := func(e *Existing) { e.Ours, e.Upstream = false, true }
	suspended := func(e *Existing) { e.DeletionTimestamp = &metav1.Time{Time: epoch} }
	cases := map[string]struct {
		text string
		view *Observation
		want []string
	}{
		"Gone":                 {all, viewOf(withExisting(first)), []string{"delete " + service, "delete " + image}},
		"GoneUpstream":         {all, viewOf(withExisting(first, upstream)), []string{"delete " + service, "delete " + image}},
		"SomebodyElses":        {all, viewOf(withExisting(first, foreign)), []string{}},
		"BeingDeleted":         {all, viewOf(withExisting(first, suspended)), []string{}},
		"Kept":                 {all + "removal: {policy: Keep}\n", viewOf(withExisting(first)), []string{}},
		"SwitchedOff":          {servicesWith(""), viewOf(withExisting(first)), []string{"delete " + service}},
		"NotReady":             {all, viewOf(withExisting(first), withService(starting, port)), []string{}},
		"AnotherPodIsStarting": {all, viewOf(withExisting(first), withPods(starting)), []string{"delete " + service}},
		"Ignored": {all, viewOf(withExisting(first), func(v *Observation) {
			p := pod.DeepCopy()
			p.Annotations = map[string]string{AnnotationIgnore: "true"}
			v.Pods = []*corev1.Pod{p}
		}), []string{"delete " + service, "delete " + image}},
		"NamespaceGoes": {all, viewOf(withExisting(first), func(v *Observation) { v.Namespace.DeletionTimestamp = &metav1.Time{Time: epoch} }), []string{}},
		"DelayBegins":   {all + "removal: {delay: 10m}\n", viewOf(withExisting(first)), []string{}},
		"DelayIsOver": {all + "removal: {delay: 10m}\n", viewOf(withExisting(first), func(v *Observation) {
			v.UnwantedSince = map[types.NamespacedName]time.Time{key: epoch.Add(-10 * time.Minute)}
		}), []string{"delete " + image}},
		"TemplateFails":         {strings.ReplaceAll(all, "'{{ .ImageID }}'", "'{{ fail .ImageID }}'"), viewOf(withExisting(first), withService(pod, port)), []string{}},
		"OtherConfigOfUpstream": {strings.ReplaceAll(all, "name: trivy", "name: grype"), viewOf(withExisting(first, upstream)), []string{"delete " + service}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { want(t, "written", tc.want, written(Decide(tc.view, load(t, tc.text)))) })
	}
	p := Decide(cases["DelayBegins"].view, load(t, cases["DelayBegins"].text))
	if p.RequeueAfter != 10*time.Minute || !p.Unwanted[key].Equal(epoch) {
		t.Errorf("looks again after %s, unwanted %v", p.RequeueAfter, p.Unwanted)
	}
}

// TestNamesOfOthers: an object of another client under a name of ours is left alone.
func TestNamesOfOthers(t *testing.T) {
	name := types.NamespacedName{Namespace: "shop", Name: "shop-service-nmap-port-80"}
	for what, o := range map[string]metav1.ObjectMeta{
		"People": {}, "AWS": {Labels: map[string]string{LabelManagedBy: ManagedBy}, Annotations: map[string]string{awsPrefix + "target": "x"}},
	} {
		v := viewOf(withService(podOf("p", "shop", "a", "a@sha256:"+digestA), corev1.ServicePort{Port: 80}))
		o.Namespace, o.Name = name.Namespace, name.Name
		v.Existing[name] = &Existing{ScheduledScan: &executionv1.ScheduledScan{ObjectMeta: o, Spec: executionv1.ScheduledScanSpec{ScanSpec: &executionv1.ScanSpec{}}}}
		p := Decide(v, load(t, servicesWith("")))
		want(t, what, []string{}, written(p))
		want(t, what, []string{"shop Skipped NameTaken"}, said(p))
	}
}

// TestLimits: how many ScheduledScans there may be.
func TestLimits(t *testing.T) {
	c := load(t, servicesWith("")+"limits: {maxScheduledScansPerNamespace: 2, maxScheduledScans: 10}\n")
	ports := []corev1.ServicePort{{Port: 80}, {Port: 443}, {Port: 3000}}
	v := viewOf(withService(podOf("p", "shop", "a", "a@sha256:"+digestA), ports...))
	p := Decide(v, c)
	want(t, "of the namespace", []string{"create shop-service-nmap-port-3000", "create shop-service-nmap-port-443"}, written(p))
	want(t, "results", []string{"shop Waiting LimitReached", "shop Scanned", "shop Scanned"}, said(p))
	v.Total = 9
	want(t, "of the cluster", []string{"create shop-service-nmap-port-3000"}, written(Decide(v, c)))
	v.Total = 12
	want(t, "over it", []string{}, written(Decide(v, c)))
}

// TestUpdates: what of an existing ScheduledScan is a difference.
func TestUpdates(t *testing.T) {
	view := func(change ...func(*Observation)) *Observation {
		return viewOf(append([]func(*Observation){withService(podOf("p", "shop", "a", "a@sha256:"+digestA), corev1.ServicePort{Port: 80})}, change...)...)
	}
	c := load(t, servicesWith(""))
	first := Decide(view(), c)
	update := []string{"update shop-service-nmap-port-80"}
	cases := map[string]struct {
		change func(*Existing)
		want   []string
	}{
		"Same":              {func(*Existing) {}, []string{}},
		"UserSuspends":      {func(e *Existing) { e.Spec.Suspend = new(true) }, []string{}},
		"OthersLabel":       {func(e *Existing) { e.Labels["argocd"] = "x" }, []string{}},
		"OthersAnnotation":  {func(e *Existing) { e.Annotations = map[string]string{"argocd": "x"} }, []string{}},
		"DefaultsOfTheCRD":  {func(e *Existing) { mode := executionv1.NamespaceLocal; e.Spec.ScanSpec.ResourceMode = &mode }, []string{}},
		"Interval":          {func(e *Existing) { e.Spec.Interval = "1h0m0s" }, update},
		"Parameters":        {func(e *Existing) { e.Spec.ScanSpec.Parameters = nil }, update},
		"LabelGone":         {func(e *Existing) { delete(e.Labels, LabelScanType) }, update},
		"OwnerGone":         {func(e *Existing) { e.OwnerReferences = nil }, update},
		"StrayDigest":       {func(e *Existing) { e.Labels[DigestPrefix+"gone"] = digestB[:63] }, []string{"update shop-service-nmap-port-80 restart"}},
		"NoDigestYet":       {func(e *Existing) { delete(e.Labels, DigestPrefix+"main") }, update},
		"UpstreamInPlace":   {func(e *Existing) { e.Ours, e.Upstream = false, true }, []string{}},
		"OtherDigestBefore": {func(e *Existing) { e.Labels[DigestPrefix+"main"] = digestB[:63] }, []string{"update shop-service-nmap-port-80 restart"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want(t, "written", tc.want, written(Decide(view(withExisting(first, tc.change)), c)))
		})
	}
}

// TestTargetOfAnImageStays while one of its pods would give the same scan.
func TestTargetOfAnImageStays(t *testing.T) {
	c := load(t, strings.ReplaceAll(imagesWith(""), "parameters:", "annotations: {pod: '{{ .Target.Name }}'}, parameters:"))
	id := "a/shop@sha256:" + digestA
	older, newer := podOf("older", "a", "a/shop", id), podOf("newer", "a", "a/shop", id)
	older.CreationTimestamp, newer.CreationTimestamp = metav1.Time{Time: epoch}, metav1.Time{Time: epoch.Add(time.Hour)}
	first := Decide(viewOf(withPods(newer)), c)
	if got := first.Changes[0].Want.Annotations["pod"]; got != "newer" {
		t.Fatalf("target %q", got)
	}
	want(t, "an older one appears", []string{}, written(Decide(viewOf(withPods(newer, older), withExisting(first)), c)))
	moved := Decide(viewOf(withPods(older), withExisting(first)), c)
	want(t, "the target goes", []string{"update shop-trivy-at-" + digestA[:48]}, written(moved))
}

// TestPullSecrets: of the pod, else of its ServiceAccount, each once.
func TestPullSecrets(t *testing.T) {
	const on = ", imagePullSecretConfig: {mapImagePullSecretsToEnvironmentVariables: true, usernameEnvironmentVariableName: U, passwordEnvironmentVariableName: P, extractorImage: 'x:1', serviceAccountSecrets: %v}"
	own := podOf("p", "a", "a/shop", "r.example/a/shop@sha256:"+digestA)
	own.Spec.ServiceAccountName = "runner"
	own.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "one"}, {Name: "one"}, {Name: "dots.in.name"}}
	account := podOf("p", "a", "a/shop", "r.example/a/shop@sha256:"+digestA)
	account.Spec.ServiceAccountName = "runner"
	accounts := func(v *Observation) {
		v.ServiceAccounts = map[string]*corev1.ServiceAccount{"runner": {ImagePullSecrets: []corev1.LocalObjectReference{{Name: "theirs"}}}}
	}
	cases := map[string]struct {
		more string
		pod  *corev1.Pod
		want []string
	}{
		"OfThePod":     {fmt.Sprintf(on, true), own, []string{"/secrets/one", "/secrets/dots.in.name"}},
		"OfTheAccount": {fmt.Sprintf(on, true), account, []string{"/secrets/theirs"}},
		"AccountOff":   {fmt.Sprintf(on, false), account, nil},
		"MappingOff":   {"", own, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := Decide(viewOf(withPods(tc.pod), accounts), load(t, imagesWith(tc.more)))
			if len(p.Changes) != 1 {
				t.Fatalf("written %q: an image is scanned without its secrets too", written(p))
			}
			scan := p.Changes[0].Want.Spec.ScanSpec
			var mounts []string
			for _, c := range scan.InitContainers {
				for _, m := range c.VolumeMounts {
					mounts = append(mounts, m.MountPath)
				}
			}
			want(t, "mounts", tc.want, mounts)
			for _, v := range scan.Volumes {
				if msgs := validation.IsDNS1123Label(v.Name); len(msgs) > 0 {
					t.Errorf("volume %s: %v", v.Name, msgs)
				}
			}
		})
	}
}

// TestMissingScanTypes: a scan type that is missing keeps the others only where it is so
// upstream.
func TestMissingScanTypes(t *testing.T) {
	two := strings.ReplaceAll(imagesWith("%s"), "scanConfigs: [", "scanConfigs: [{name: grype, scanType: grype, repeatInterval: 24h}, ")
	pod := podOf("p", "a", "a/shop", "a/shop@sha256:"+digestA)
	none := Decide(viewOf(withPods(pod)), load(t, fmt.Sprintf(two, "")))
	want(t, "upstream", []string{}, written(none))
	one := Decide(viewOf(withPods(pod)), load(t, fmt.Sprintf(two, ", allowMissingScanTypes: true")))
	want(t, "allowed", []string{"create shop-trivy-at-" + digestA[:48]}, written(one))
	for _, p := range []Decision{none, one} {
		if len(p.Missing) != 1 || p.Missing[0].Name != "grype" {
			t.Errorf("missing: %v", p.Missing)
		}
	}
}

// TestIngress: hosts, TLS, wildcards.
func TestIngress(t *testing.T) {
	rule := func(host string) networkingv1.IngressRule { return networkingv1.IngressRule{Host: host} }
	o := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", Annotations: map[string]string{"defectdojo.securecodebox.io/product-name": "x"}}, Spec: networkingv1.IngressSpec{
		Rules: []networkingv1.IngressRule{rule("plain.example.com"), rule("a.tls.example.com"), rule("*.any.example.com"), rule(""), rule("plain.example.com")},
		TLS:   []networkingv1.IngressTLS{{Hosts: []string{"*.tls.example.com"}}},
	}}
	c := load(t, "ingressAutoDiscovery: {enabled: true, scanConfigs: [{name: nmap, scanType: nmap, repeatInterval: 24h, parameters: ['{{ .URL }}', '{{ .Host.Name }}', '{{ .Ingress.Name }}']}]}\n")
	p := Decide(viewOf(func(v *Observation) { v.Ingresses = []*networkingv1.Ingress{o} }), c)
	var parameters []string
	for _, change := range p.Changes {
		parameters = append(parameters, strings.Join(change.Want.Spec.ScanSpec.Parameters, " "))
		if change.Want.Labels[LabelTargetIngress] != "web" || change.Want.Annotations["defectdojo.securecodebox.io/product-name"] != "x" || change.Want.OwnerReferences[0].UID != "u" {
			t.Errorf("metadata: %+v", change.Want.ObjectMeta)
		}
	}
	want(t, "parameters", []string{"https://a.tls.example.com a.tls.example.com web", "http://plain.example.com plain.example.com web"}, parameters)
	want(t, "results", []string{"web Skipped NoHost", "web Scanned", "web Scanned"}, said(p))
	again := Decide(viewOf(withExisting(p)), c)
	if len(written(again)) != 2 || !strings.HasPrefix(written(again)[0], "delete ") {
		t.Errorf("once it has gone: %q", written(again))
	}
}

// TestHTTPRoute: the hosts that the listeners of its Gateways serve.
func TestHTTPRoute(t *testing.T) {
	host := func(name string) *gatewayv1.Hostname { h := gatewayv1.Hostname(name); return &h }
	gateway := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "edge"}, Spec: gatewayv1.GatewaySpec{Listeners: []gatewayv1.Listener{
		{Name: "plain", Port: 80, Protocol: gatewayv1.HTTPProtocolType},
		{Name: "tls", Port: 8443, Protocol: gatewayv1.HTTPSProtocolType, Hostname: host("*.example.com")},
		{Name: "tcp", Port: 5432, Protocol: gatewayv1.TCPProtocolType},
		{Name: "own", Port: 443, Protocol: gatewayv1.HTTPSProtocolType, Hostname: host("own.example.org")},
	}}}
	infra := gatewayv1.Namespace("infra")
	ref := func(section string) gatewayv1.ParentReference {
		r := gatewayv1.ParentReference{Name: "edge", Namespace: &infra}
		if section != "" {
			s := gatewayv1.SectionName(section)
			r.SectionName = &s
		}
		return r
	}
	cases := map[string]struct {
		refs  []gatewayv1.ParentReference
		hosts []gatewayv1.Hostname
		want  []string
	}{
		"AllListeners":   {[]gatewayv1.ParentReference{ref("")}, []gatewayv1.Hostname{"a.b.example.com"}, []string{"http://a.b.example.com", "https://a.b.example.com:8443"}},
		"OneListener":    {[]gatewayv1.ParentReference{ref("tls")}, []gatewayv1.Hostname{"a.example.com", "a.example.net"}, []string{"https://a.example.com:8443"}},
		"ListenersOwn":   {[]gatewayv1.ParentReference{ref("own")}, nil, []string{"https://own.example.org"}},
		"NarrowerWins":   {[]gatewayv1.ParentReference{ref("own")}, []gatewayv1.Hostname{"*.example.org"}, []string{"https://own.example.org"}},
		"Wildcard":       {[]gatewayv1.ParentReference{ref("plain")}, []gatewayv1.Hostname{"*.example.com"}, nil},
		"NoHTTP":         {[]gatewayv1.ParentReference{ref("tcp")}, []gatewayv1.Hostname{"a.example.com"}, nil},
		"UnknownGateway": {[]gatewayv1.ParentReference{{Name: "other"}}, []gatewayv1.Hostname{"a.example.com"}, nil},
	}
	c := load(t, "gatewayAutoDiscovery: {enabled: true, scanConfigs: [{name: nmap, scanType: nmap, repeatInterval: 24h, parameters: ['{{ .URL }}']}]}\n")
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: gatewayv1.HTTPRouteSpec{
				CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: tc.refs}, Hostnames: tc.hosts,
			}}
			p := Decide(viewOf(func(v *Observation) {
				v.HTTPRoutes = []*gatewayv1.HTTPRoute{o}
				v.Gateways = map[types.NamespacedName]*gatewayv1.Gateway{{Namespace: "infra", Name: "edge"}: gateway}
			}), c)
			var urls []string
			for _, change := range p.Changes {
				urls = append(urls, change.Want.Spec.ScanSpec.Parameters[0])
			}
			slices.Sort(urls)
			want(t, "hosts", tc.want, urls)
			if len(tc.want) == 0 && !slices.Contains(said(p), "web Skipped NoHost") {
				t.Errorf("results %q", said(p))
			}
		})
	}
}

// TestNames: valid, stable, and different for different targets, however long.
func TestNames(t *testing.T) {
	long := strings.Repeat("a", 63)
	seen := map[string]string{}
	for what, name := range map[string]string{
		"Service":        serviceScanName(long, long, 65535),
		"OtherService":   serviceScanName(long[:62]+"b", long, 65535),
		"LongConfig":     imageScanName("app", long, digestA),
		"LongConfig2":    imageScanName("app", long, digestB),
		"LongConfig3":    imageScanName("app", strings.Repeat("a", 50)+".b", digestA),
		"Image":          imageScanName("a.b_c", "trivy", digestA),
		"OtherNamespace": inNamespace(long, serviceScanName(long, long, 1), maxServiceScanName),
		"ImageElsewhere": inNamespace(long, imageScanName("app", "trivy", digestA), maxImageScanName),
		"Route":          routeScanName(KindIngress, strings.Repeat("r", 253), long, strings.Repeat("h.", 100)+"com", 443),
		"Route2":         routeScanName(KindIngress, "r", "c", "a-b.com", 443),
		"Route3":         routeScanName(KindIngress, "r", "c", "a.b.com", 443),
		"Secret":         temporarySecretName(imageScanName("app", long, digestA)),
		"Secret2":        temporarySecretName(imageScanName("app", long, digestB)),
		"Secret3":        temporarySecretName(imageScanName(long, "trivy", digestA)),
	} {
		if msgs := validation.IsDNS1123Subdomain(name); len(msgs) > 0 || len(name) > maxServiceScanName {
			t.Errorf("%s: %s: %v", what, name, msgs)
		}
		if other, twice := seen[name]; twice {
			t.Errorf("%s and %s are both called %s", what, other, name)
		}
		seen[name] = what
	}
}

// TestBadConfig: what is wrong with a file is said with file, line and field.
func TestBadConfig(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"NoMode":       {"cluster: {name: a}\n", "c.yaml: resourceInclusion.mode: Required value: one of [\"enabled-per-namespace\" \"enabled-per-resource\" \"all\"]"},
		"Mode":         {"resourceInclusion:\n  mode: some\n", `c.yaml:2: resourceInclusion.mode: Unsupported value: "some"`},
		"Kind":         {"kind: Config\nresourceInclusion: {mode: all}\n", "c.yaml:1: kind: Unsupported value"},
		"Interval":     {"resourceInclusion: {mode: all}\nserviceAutoDiscovery:\n  passiveReconcileInterval: 1s\n", "c.yaml:3: serviceAutoDiscovery.passiveReconcileInterval: Invalid value: \"1s\": must be at least 5s"},
		"Selector":     {"resourceInclusion:\n  mode: all\n  namespaceSelector: {matchExpressions: [{key: a, operator: Is}]}\n", "c.yaml:3: resourceInclusion.namespaceSelector: "},
		"Template":     {"resourceInclusion: {mode: all}\ncontainerAutoDiscovery:\n  scanConfigs:\n  - {name: a, scanType: a, repeatInterval: 1h, parameters: ['{{ .Service.Name }}']}\n", "c.yaml:4: containerAutoDiscovery.scanConfigs[0].parameters[0]: "},
		"SameName":     {"resourceInclusion: {mode: all}\ningressAutoDiscovery:\n  scanConfigs:\n  - {name: a, scanType: a, repeatInterval: 1h}\n  - {name: a, scanType: b, repeatInterval: 1h}\n", "c.yaml:5: ingressAutoDiscovery.scanConfigs[1].name: Duplicate value"},
		"Variable":     {"resourceInclusion: {mode: all}\ncontainerAutoDiscovery:\n  imagePullSecretConfig:\n    mapImagePullSecretsToEnvironmentVariables: true\n    usernameEnvironmentVariableName: U\n", "c.yaml:3: containerAutoDiscovery.imagePullSecretConfig.passwordEnvironmentVariableName: Required value"},
		"Unknown":      {"resourceInclusion: {mode: all}\nserviceAutoDiscovery:\n  scanconfigs: []\n", "c.yaml:3: serviceAutoDiscovery.scanconfigs: there is no such field"},
		"Limits":       {"resourceInclusion: {mode: all}\nlimits: {startsPerMinute: -1}\n", "c.yaml:2: limits.startsPerMinute: Invalid value"},
		"Instance":     {"resourceInclusion: {mode: all}\ninstance: A B\n", "c.yaml:2: instance: Invalid value"},
		"Digestless":   {"resourceInclusion: {mode: all}\ncontainerAutoDiscovery: {imagesWithoutDigest: No}\n", "c.yaml:2: containerAutoDiscovery.imagesWithoutDigest: Unsupported value"},
		"ResourceLock": {"resourceInclusion: {mode: all}\nleaderElection: {resourceLock: endpoints}\n", "c.yaml:2: leaderElection.resourceLock: Unsupported value"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := config.Load("c.yaml", []byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want %q in:\n%v", tc.want, err)
			}
		})
	}
}
