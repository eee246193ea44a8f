// SPDX-License-Identifier: Apache-2.0

package targets

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/strictyaml"
	"github.com/scanyard/scanyard/discovery/kubernetes/config"
)

// fixture is a case of the auto-discovery for Kubernetes: objects, what happens to them,
// and what secureCodeBox's auto-discovery has made of it.
type fixture struct {
	Name       string          `json:"name"`
	Controller string          `json:"controller"`
	Namespace  string          `json:"namespace"`
	Config     json.RawMessage `json:"config"`
	Objects    fixtureObjects  `json:"objects"`
	Steps      []struct {
		Apply     fixtureObjects `json:"apply"`
		DeletePod string         `json:"deletePod"`
		Reconcile string         `json:"reconcile"`
	} `json:"steps"`
	// Expected is an error in place of the results where upstream fails.
	Expected json.RawMessage `json:"expected"`
}

type fixtureObjects struct {
	Namespaces     []*corev1.Namespace          `json:"namespaces"`
	Pods           []*corev1.Pod                `json:"pods"`
	Services       []*corev1.Service            `json:"services"`
	ScanTypes      []*executionv1.ScanType      `json:"scanTypes"`
	ScheduledScans []*executionv1.ScheduledScan `json:"scheduledScans"`
}

type fixtureResult struct {
	RequeueAfterSeconds int             `json:"requeueAfterSeconds"`
	Events              []string        `json:"events"`
	ScheduledScans      []fixtureScan   `json:"scheduledScans"`
	Error               json.RawMessage `json:"error"`
}

type fixtureScan struct {
	Change                   string                    `json:"change"`
	ForcedRestart            bool                      `json:"forcedRestart"`
	LastScheduleTimeHoursAgo int                       `json:"lastScheduleTimeHoursAgo"`
	Object                   executionv1.ScheduledScan `json:"object"`
}

// TestFixtures runs the cases that are kept here, and those of the folder FIXTURES.
func TestFixtures(t *testing.T) {
	folders := []string{filepath.Join("testdata", "autodiscovery-kubernetes")}
	if f := os.Getenv("FIXTURES"); f != "" {
		folders = append(folders, filepath.Join(f, "autodiscovery-kubernetes"))
	}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no cases in %s: %v", folder, err)
		}
		for _, file := range files {
			t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), func(t *testing.T) { runFixture(t, file) })
		}
	}
}

func runFixture(t *testing.T, file string) {
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var f fixture
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	t.Logf("case %q", f.Name)
	var expected []fixtureResult
	if err := json.Unmarshal(f.Expected, &expected); err != nil {
		expected = nil // an error of upstream's
	}
	w, err := newFixtureWorld(t, &f)
	if err != nil {
		// Where upstream panics at what is rendered, here the file is refused.
		if expected != nil {
			t.Fatalf("config: %v", err)
		}
		return
	}
	for i, step := range f.Steps {
		if expected != nil {
			w.restoreLostStatus(step.Apply.Pods, expected[i])
		}
		w.apply(step.Apply)
		if step.DeletePod != "" {
			w.objects.Pods = slices.DeleteFunc(w.objects.Pods, func(p *corev1.Pod) bool { return p.Name == step.DeletePod })
		}
		got := w.reconcile(step.Reconcile)
		if expected == nil || len(expected[i].Error) > 0 {
			// Upstream ends with an error and writes nothing. Neither do we, and we say why;
			// but for images whose names it cannot read: panicking at them is a defect.
			if len(got.ScheduledScans) > 0 && !w.hasImagesUpstreamCannotRead() {
				t.Errorf("step %d: upstream fails, and here is written: %+v", i, got.ScheduledScans)
			}
			return
		}
		want := expected[i]
		everywhere := false
		for j := range want.ScheduledScans {
			o := &want.ScheduledScans[j].Object
			o.TypeMeta = metav1.TypeMeta{}
			dropEmptySelector(o)
			everywhere = everywhere || o.Namespace != f.Namespace
		}
		if !everywhere {
			got.ScheduledScans = slices.DeleteFunc(got.ScheduledScans, func(s fixtureScan) bool { return s.Object.Namespace != f.Namespace })
		}
		w.undoFixes(&got, &want)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(fixtureResult{}, "Error"),
			cmpopts.SortSlices(func(a, b fixtureScan) bool { return a.Object.Name < b.Object.Name })); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
}

// fixtureWorld is the cluster of a case, in memory: what is tested is what is decided.
type fixtureWorld struct {
	t          *testing.T
	controller string
	namespace  string
	config     *config.Compiled
	objects    fixtureObjects
	scans      map[types.NamespacedName]*Existing
}

// undoFixes takes back what is better here on purpose, where the case shows it: of a
// hookSelector with both kinds of requirements upstream loses the expressions, and a pod
// with pull secrets is not scanned at all while they are not mapped.
func (w *fixtureWorld) undoFixes(got, want *fixtureResult) {
	lost := map[string]bool{}
	for _, r := range w.config.Rules() {
		if s := r.HookSelector; s != nil && len(s.MatchLabels) > 0 && len(s.MatchExpressions) > 0 {
			lost["-"+r.Name+"-"] = true
		}
	}
	for i := range got.ScheduledScans {
		o := &got.ScheduledScans[i].Object
		for name := range lost {
			if selector := o.Spec.ScanSpec.HookSelector; strings.Contains(o.Name, name) && selector != nil {
				selector.MatchExpressions = nil
			}
		}
		dropEmptySelector(o)
	}
	if w.config.ContainerAutoDiscovery.ImagePullSecretConfig.MapImagePullSecretsToEnvironmentVariables || w.controller != "container" ||
		!slices.ContainsFunc(w.objects.Pods, func(p *corev1.Pod) bool { return len(p.Spec.ImagePullSecrets) > 0 }) {
		return
	}
	got.ScheduledScans = slices.DeleteFunc(got.ScheduledScans, func(s fixtureScan) bool {
		return !slices.ContainsFunc(want.ScheduledScans, func(o fixtureScan) bool { return o.Object.Name == s.Object.Name })
	})
}

// dropEmptySelector: a hookSelector without requirements counts as none.
func dropEmptySelector(o *executionv1.ScheduledScan) {
	if o.Spec.ScanSpec == nil {
		return
	}
	if s := o.Spec.ScanSpec.HookSelector; s != nil && len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0 {
		o.Spec.ScanSpec.HookSelector = nil
	}
}

// hasImagesUpstreamCannotRead: it wants registry/application@sha256:digits.
func (w *fixtureWorld) hasImagesUpstreamCannotRead() bool {
	readable := regexp.MustCompile(`^(.*://)?.+/[^/]+@sha256:[0-9a-f]+$`)
	return slices.ContainsFunc(w.objects.Pods, func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.ImageID != "" && !readable.MatchString(c.ImageID)
		})
	})
}

func newFixtureWorld(t *testing.T, f *fixture) (*fixtureWorld, error) {
	text, err := yaml.JSONToYAML(f.Config)
	if err != nil {
		t.Fatal(err)
	}
	written := &config.Config{}
	if _, err := strictyaml.Decode("config.yaml", text, written); err != nil {
		return nil, err
	}
	c, errs := config.Compile(written)
	for _, e := range errs {
		// Names that the arguments lack are found here when the file is read; upstream
		// finds them when it renders, which in some cases never comes.
		if !strings.Contains(e.Detail, "can't evaluate field") {
			return nil, e
		}
	}
	// What is better here by default is set to what it is upstream.
	c.ExistingScans = config.KeepExisting
	c.ContainerAutoDiscovery.ImagePullSecretConfig.ExtractorImage = "docker.io/securecodebox/auto-discovery-pull-secret-extractor"
	// A case is about one of upstream's two controllers.
	c.ServiceAutoDiscovery.Enabled = f.Controller == "service"
	c.ContainerAutoDiscovery.Enabled = f.Controller == "container"
	w := &fixtureWorld{t: t, controller: f.Controller, namespace: f.Namespace, config: c, objects: f.Objects, scans: map[types.NamespacedName]*Existing{}}
	if w.controller == "service" {
		w.hideFromUpstream(w.objects.Pods)
	}
	for _, s := range f.Objects.ScheduledScans {
		w.store(s.DeepCopy())
	}
	return w, nil
}

// hideFromUpstream takes away what upstream does not see: that it knows digests from
// Docker only is a defect. TestDigestsOfEveryRuntime has it right.
func (w *fixtureWorld) hideFromUpstream(pods []*corev1.Pod) {
	for _, p := range pods {
		for i := range p.Status.ContainerStatuses {
			if c := &p.Status.ContainerStatuses[i]; !strings.HasPrefix(c.ImageID, "docker-pullable://") {
				c.ImageID = ""
			}
		}
	}
}

// restoreLostStatus mends cases whose recording lost the status of a pod that was
// changed: its image is another one, and its status is word for word the one before, as
// no kubelet leaves it. The new digest is then in the expected labels only. Everything
// else about such a case is compared as it is.
func (w *fixtureWorld) restoreLostStatus(pods []*corev1.Pod, expected fixtureResult) {
	for _, p := range pods {
		for _, before := range w.objects.Pods {
			if before.Name != p.Name || before.Namespace != p.Namespace || len(p.Status.ContainerStatuses) == 0 ||
				before.Spec.Containers[0].Image == p.Spec.Containers[0].Image || !reflect.DeepEqual(before.Status, p.Status) {
				continue
			}
			for i := range p.Status.ContainerStatuses {
				c := &p.Status.ContainerStatuses[i]
				for _, s := range expected.ScheduledScans {
					if digest := s.Object.Labels[DigestPrefix+c.Name]; digest != "" {
						w.t.Logf("pod %s: the case lost its status; taking digest %s", p.Name, digest)
						c.ImageID = c.ImageID[:strings.LastIndex(c.ImageID, ":")+1] + digest + "0"
					}
				}
			}
		}
	}
}

func (w *fixtureWorld) store(s *executionv1.ScheduledScan) {
	w.scans[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}] = &Existing{ScheduledScan: s, Ours: s.Labels[LabelManagedBy] == ManagedBy}
}

func put[T metav1.Object](all []T, changed []T) []T {
	for _, c := range changed {
		all = slices.DeleteFunc(slices.Clone(all), func(o T) bool { return o.GetName() == c.GetName() && o.GetNamespace() == c.GetNamespace() })
		all = append(all, c)
	}
	return all
}

func (w *fixtureWorld) apply(o fixtureObjects) {
	if w.controller == "service" {
		w.hideFromUpstream(o.Pods)
	}
	w.objects.Namespaces = put(w.objects.Namespaces, o.Namespaces)
	w.objects.Pods = put(w.objects.Pods, o.Pods)
	w.objects.Services = put(w.objects.Services, o.Services)
	w.objects.ScanTypes = put(w.objects.ScanTypes, o.ScanTypes)
	for _, s := range o.ScheduledScans {
		w.store(s)
	}
}

// view is what a pass sees: of Services the one that upstream is asked about, since it
// goes object by object.
func (w *fixtureWorld) view(name string) *Observation {
	v := &Observation{
		Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}},
		ScanTypes: map[string]sets.Set[string]{w.namespace: sets.New[string]()}, Existing: map[types.NamespacedName]*Existing{},
	}
	for key, s := range w.scans {
		if key.Namespace == w.namespace {
			v.Existing[key] = s
		}
	}
	for _, n := range w.objects.Namespaces {
		if n.Name == w.namespace {
			v.Namespace = n
		}
	}
	// Inclusion is upstream's event filter; its cases are elsewhere.
	v.Namespace = v.Namespace.DeepCopy()
	metav1.SetMetaDataAnnotation(&v.Namespace.ObjectMeta, AnnotationEnabled, "true")
	for _, p := range w.objects.Pods {
		if p.Namespace == w.namespace {
			v.Pods = append(v.Pods, p)
		}
	}
	for _, s := range w.objects.Services {
		if s.Namespace == w.namespace && s.Name == name {
			v.Services = append(v.Services, s)
		}
	}
	for _, s := range w.objects.ScanTypes {
		if s.Namespace == w.namespace {
			v.ScanTypes[w.namespace].Insert(s.Name)
		}
	}
	return v
}

func (w *fixtureWorld) reconcile(name string) fixtureResult {
	v := w.view(name)
	p := Decide(v, w.config)
	changes := map[string]Change{}
	for _, c := range p.Changes {
		changes[c.Key.Name] = c
		if c.Action == Delete {
			delete(w.scans, c.Key)
			continue
		}
		o := c.Want.DeepCopy()
		if c.Have != nil {
			o.OwnerReferences = c.Have.OwnerReferences // upstream writes labels, annotations and spec
		}
		w.store(o)
	}
	r := fixtureResult{RequeueAfterSeconds: w.requeue(p)}
	seen := sets.New[string]()
	for _, m := range p.Missing {
		if e := "Warning ScanTypeMissing " + m.Message(); !seen.Has(e) {
			seen.Insert(e)
			r.Events = append(r.Events, e)
		}
	}
	for _, s := range w.scans {
		out := fixtureScan{Change: "unchanged", Object: *s.DeepCopy()}
		out.Object.TypeMeta = metav1.TypeMeta{}
		out.Object.Status = executionv1.ScheduledScanStatus{}
		out.Object.ResourceVersion, out.Object.UID = "", ""
		if c, ok := changes[s.Name]; ok && s.Namespace == w.namespace {
			out.Change, out.ForcedRestart = string(c.Action)+"d", c.Restart
			if c.Restart {
				out.LastScheduleTimeHoursAgo = int(v.Now.Sub(RestartTime(c.Want, v.Now)).Hours())
			}
		}
		r.ScheduledScans = append(r.ScheduledScans, out)
	}
	return r
}

// requeue is when upstream looks again, from why we do not scan now: here watches bring
// the next pass, and the interval is that of the namespace.
func (w *fixtureWorld) requeue(p Decision) int {
	reasons := sets.New[Reason]()
	for _, v := range p.Results {
		reasons.Insert(v.Reason)
	}
	switch {
	case w.controller == "container" && len(p.Missing) > 0:
		return int(w.config.ContainerAutoDiscovery.PassiveReconcileInterval.Seconds())
	case w.controller == "container", len(p.Results) == 0, reasons.HasAny(NoPort, Ignored, NotEnabled):
		return 0
	case reasons.HasAny(NoReadyPod, DigestsDiffer):
		return 5
	default:
		return int(w.config.ServiceAutoDiscovery.PassiveReconcileInterval.Seconds())
	}
}

// TestFixtureInclusion compares which objects are looked at.
func TestFixtureInclusion(t *testing.T) {
	folders := []string{filepath.Join("testdata", "autodiscovery-inclusion")}
	if f := os.Getenv("FIXTURES"); f != "" {
		folders = append(folders, filepath.Join(f, "autodiscovery-inclusion"))
	}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no cases in %s: %v", folder, err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var f struct {
				Cases []struct {
					Mode                 config.InclusionMode `json:"mode"`
					NamespaceAnnotations map[string]string    `json:"namespaceAnnotations"`
					ObjectAnnotations    map[string]string    `json:"objectAnnotations"`
					Expected             struct {
						Included bool            `json:"included"`
						Error    json.RawMessage `json:"error"`
					} `json:"expected"`
				} `json:"cases"`
			}
			if err := json.Unmarshal(raw, &f); err != nil {
				t.Fatal(err)
			}
			for i, c := range f.Cases {
				if len(c.Expected.Error) > 0 {
					// Upstream panics at an unknown mode; here the file is refused.
					if errs := config.Supported(nil, c.Mode, config.EnabledPerNamespace, config.EnabledPerResource, config.All); len(errs) == 0 {
						t.Errorf("%s case %d: mode %q is not refused", file, i, c.Mode)
					}
					continue
				}
				if got := Included(c.Mode, c.NamespaceAnnotations, c.ObjectAnnotations); got != c.Expected.Included {
					t.Errorf("%s case %d %+v: got %v", file, i, c, got)
				}
			}
		}
	}
}
