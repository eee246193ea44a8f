// SPDX-License-Identifier: Apache-2.0

package v1alpha2_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1alpha1 "github.com/scanyard/scanyard/apis/settings/v1alpha1"
	"github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// fill sets an object to random values, as JSON can say them. Some fields stay empty.
func fill(r *rand.Rand, v reflect.Value, depth int) {
	switch at := v.Addr().Interface().(type) {
	case *metav1.Time:
		*at = metav1.NewTime(time.Unix(r.Int64N(1<<32), 0).UTC())
		return
	case *resource.Quantity:
		*at = resource.MustParse(strconv.FormatInt(r.Int64N(1<<40), 10))
		return
	case *intstr.IntOrString:
		*at = intstr.FromInt32(r.Int32N(1 << 16))
		return
	case *metav1.TypeMeta:
		return
	case *metav1.ObjectMeta:
		*at = metav1.ObjectMeta{
			Name: "default", Namespace: text(r), UID: "u", ResourceVersion: text(r), Generation: r.Int64N(100),
			Labels: map[string]string{"l": text(r)},
		}
		if r.IntN(2) == 0 {
			at.Annotations = map[string]string{"a": text(r)}
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if depth > 0 && r.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(r, v.Elem(), depth-1)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				fill(r, field, depth)
			}
		}
	case reflect.Slice:
		if depth > 0 && r.IntN(3) > 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1+r.IntN(2), 2))
			for i := range v.Len() {
				fill(r, v.Index(i), depth-1)
			}
		}
	case reflect.Map:
		if depth > 0 && r.IntN(3) > 0 {
			v.Set(reflect.MakeMap(v.Type()))
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(r, key, depth-1)
			fill(r, value, depth-1)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString(text(r))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(r.Int32N(1 << 30)))
	case reflect.Uint8:
		v.SetUint(uint64(r.IntN(256)))
	default:
	}
}

func text(r *rand.Rand) string {
	alphabet := []rune("abcXYZ019-._/:@ <>&\"\\\n{}é漢\u2028")
	out := make([]rune, r.IntN(9))
	for i := range out {
		out[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(out)
}

func random[T any](r *rand.Rand) *T {
	o := new(T)
	fill(r, reflect.ValueOf(o).Elem(), 9)
	return o
}

// same compares as the API server would: by what JSON says.
func same(t *testing.T, seed uint64, want, got any) {
	t.Helper()
	w, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	g, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if string(w) != string(g) {
		t.Fatalf("seed %d: lost or changed\n got %s\nwant %s", seed, g, w)
	}
}

// TestConversionRoundTrip sends 10,000 random objects of each kind from either version to the other and back.
func TestConversionRoundTrip(t *testing.T) {
	const objects = 10000
	kept := 0
	for seed := range uint64(objects) {
		r := rand.New(rand.NewPCG(seed, 14))
		own, before := random[v1alpha2.ScanSetting](r), &v1alpha2.ScanSetting{}
		own.SetGroupVersionKind(v1alpha2.SchemeGroupVersion.WithKind("ScanSetting"))
		own.DeepCopyInto(before)
		down := v1alpha2.ToV1alpha1(own)
		same(t, seed, before, own)
		same(t, seed, before, v1alpha2.FromV1alpha1(down))
		if _, ok := down.Annotations[v1alpha2.AnnotationKept]; ok {
			kept++
		}
		cluster := random[v1alpha2.ClusterScanSetting](r)
		cluster.SetGroupVersionKind(v1alpha2.SchemeGroupVersion.WithKind("ClusterScanSetting"))
		same(t, seed, cluster, v1alpha2.ClusterFromV1alpha1(v1alpha2.ClusterToV1alpha1(cluster)))

		old := random[v1alpha1.ScanSetting](r)
		old.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("ScanSetting"))
		same(t, seed, old, v1alpha2.ToV1alpha1(v1alpha2.FromV1alpha1(old)))
		oldCluster := random[v1alpha1.ClusterScanSetting](r)
		oldCluster.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("ClusterScanSetting"))
		same(t, seed, oldCluster, v1alpha2.ClusterToV1alpha1(v1alpha2.ClusterFromV1alpha1(oldCluster)))
	}
	if kept < objects/4 || kept == objects {
		t.Errorf("%d of %d objects had something that v1alpha1 cannot say: this test tests nothing", kept, objects)
	}
}

// TestConversionOfPartialObjects: the API server converts what it has, which may be nearly nothing.
func TestConversionOfPartialObjects(t *testing.T) {
	if up := v1alpha2.FromV1alpha1(&v1alpha1.ScanSetting{}); up.Spec.ResultForwarding != nil || up.Annotations != nil {
		t.Errorf("%+v was made of nothing", up)
	}
	if down := v1alpha2.ClusterToV1alpha1(&v1alpha2.ClusterScanSetting{}); down.Annotations != nil {
		t.Errorf("%+v was made of nothing", down)
	}
	for _, foreign := range []string{"", "{", "[]", `"x"`, `{"spec":3}`, `{"spec":{"resultForwarding":7}}`} {
		in := &v1alpha1.ScanSetting{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha2.AnnotationKept: foreign, "mine": "1"}}}
		up := v1alpha2.FromV1alpha1(in)
		if want := map[string]string{"mine": "1"}; !equality.Semantic.DeepEqual(want, up.Annotations) || up.Spec.ResultForwarding != nil {
			t.Errorf("%s became %+v", foreign, up)
		}
	}
}

// TestOldFieldsAreEditedBesideTheNewOnes is what an old client does: it reads, edits and writes v1alpha1.
func TestOldFieldsAreEditedBesideTheNewOnes(t *testing.T) {
	s := &v1alpha2.ScanSetting{Spec: v1alpha2.ScanSettingSpec{
		Limits:           &v1alpha2.Limits{MaxRunning: new(int32(3))},
		ResultForwarding: &v1alpha2.ResultForwarding{Sink: v1alpha2.Sink{Provider: v1alpha2.ProviderGRPC, GRPC: &v1alpha2.GRPCSink{Endpoint: "https://a.example:1"}}},
	}}
	old := v1alpha2.ToV1alpha1(s)
	if want := `{"spec":{"resultForwarding":{"provider":"grpc","grpc":{"endpoint":"https://a.example:1"}}}}`; old.Annotations[v1alpha2.AnnotationKept] != want {
		t.Errorf("the annotation is %s, want %s", old.Annotations[v1alpha2.AnnotationKept], want)
	}
	old.Spec.Limits.MaxRunning = new(int32(5))
	now := v1alpha2.FromV1alpha1(old)
	if *now.Spec.Limits.MaxRunning != 5 || now.Spec.ResultForwarding == nil || now.Spec.ResultForwarding.GRPC.Endpoint != "https://a.example:1" {
		t.Errorf("%+v", now.Spec)
	}
	if *s.Spec.Limits.MaxRunning != 3 {
		t.Error("the two objects share memory")
	}
}

// TestAnnotationIsBounded: the largest forwarding that is valid, twice in the object, stays within 96 KiB.
func TestAnnotationIsBounded(t *testing.T) {
	f := &v1alpha2.ClusterResultForwarding{}
	for i := range 16 {
		f.Sinks = append(f.Sinks, v1alpha2.NamedClusterSink{Name: strings.Repeat("s", 30) + string(rune('a'+i)), ClusterSink: v1alpha2.ClusterSink{Sink: v1alpha2.Sink{
			Provider: v1alpha2.ProviderGRPC, GRPC: &v1alpha2.GRPCSink{Endpoint: "https://a.example:1"},
		}}})
	}
	valid := f.DeepCopy()
	for i := 0; len(v1alpha2.ValidateForwarding(f, nil)) == 0; i++ {
		valid = f.DeepCopy()
		m := &f.Sinks[i%16].ExtraMetadata
		if *m == nil {
			*m = v1alpha2.Metadata{}
		}
		(*m)["k"+strings.Repeat("x", i/16)] = strings.Repeat("v", 200)
	}
	s := &v1alpha2.ClusterScanSetting{Spec: v1alpha2.ClusterScanSettingSpec{ResultForwarding: valid}}
	s.Status.InForce = s.Spec.DeepCopy()
	for range 17 {
		now := metav1.Now()
		s.Status.Sinks = append(s.Status.Sinks, v1alpha2.SinkStatus{
			Name: strings.Repeat("s", 40), Provider: v1alpha2.ProviderKafka, Healthy: "Unknown", Reason: strings.Repeat("R", 64), Message: strings.Repeat("漢", 256),
			Since: &now, LastAcknowledgedTime: &now, PendingScans: 1 << 30, OldestPendingTime: &now, DeadLetters: 1 << 60, Proving: true,
		})
	}
	const most, least = 96 << 10, 80 << 10
	if n := len(v1alpha2.ClusterToV1alpha1(s).Annotations[v1alpha2.AnnotationKept]); n > most || n < least {
		t.Errorf("the annotation has %d bytes, want %d to %d", n, least, most)
	}
}
