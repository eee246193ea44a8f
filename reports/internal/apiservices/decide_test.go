// SPDX-License-Identifier: Apache-2.0

package apiservices

import (
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
)

func wanted(t TakeOver) *Wanted {
	return &Wanted{
		Group: Group{Group: "wgpolicyk8s.io", Version: "v1alpha2", Served: true}, TakeOver: t,
		Namespace: "team", Service: "reports", Port: 443, CABundle: []byte("ca"),
	}
}

// kept is what the server itself writes.
func kept() *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{ManagedAnnotation: "true", ServiceAnnotation: "team/reports"}},
		Spec: apiregistrationv1.APIServiceSpec{
			Service:  &apiregistrationv1.ServiceReference{Namespace: "team", Name: "reports", Port: ptr.To[int32](443)},
			CABundle: []byte("ca"),
		},
	}
}

type change = func(*apiregistrationv1.APIService)

func keptBut(changes ...change) *apiregistrationv1.APIService {
	s := kept()
	for _, c := range changes {
		c(s)
	}
	return s
}

func local(s *apiregistrationv1.APIService)     { s.Spec.Service, s.Spec.CABundle = nil, nil }
func unmarked(s *apiregistrationv1.APIService)  { s.Annotations = nil }
func elsewhere(s *apiregistrationv1.APIService) { s.Spec.Service.Name = "other" }
func ofCRD(s *apiregistrationv1.APIService)     { s.Labels = map[string]string{automanagedLabel: "true"} }

func ofKube(s *apiregistrationv1.APIService) {
	s.Labels = map[string]string{automanagedLabel: "onstart"}
}

func annotated(key, value string) change {
	return func(s *apiregistrationv1.APIService) { s.Annotations[key] = value }
}

// TestDecideByTakeOver names for each thing that can be found what is done with takeOver never, ifAbsent and always.
func TestDecideByTakeOver(t *testing.T) {
	for name, c := range map[string]struct {
		found *apiregistrationv1.APIService
		want  [3]verb
		step  string
	}{
		"Absent":            {nil, [3]verb{leave, create, create}, "APIServiceTaken"},
		"OfACRD":            {keptBut(unmarked, local, ofCRD), [3]verb{leave, leave, update}, "APIServiceOfCRD"},
		"OfAnotherServer":   {keptBut(unmarked, elsewhere), [3]verb{leave, leave, leave}, "APIServiceOfAnotherServer"},
		"OfKubernetes":      {keptBut(unmarked, local, ofKube), [3]verb{leave, leave, leave}, "BuiltIn"},
		"MadeByHandForUs":   {keptBut(unmarked), [3]verb{leave, update, update}, "APIServiceTaken"},
		"LocalWithoutLabel": {keptBut(unmarked, local), [3]verb{leave, leave, update}, "APIServiceOfCRD"},

		"Ours":              {kept(), [3]verb{leave, leave, leave}, "Kept"},
		"OursByMigrate":     {keptBut(func(s *apiregistrationv1.APIService) { delete(s.Annotations, ServiceAnnotation) }), [3]verb{update, update, update}, "Refreshed"},
		"OldAuthority":      {keptBut(func(s *apiregistrationv1.APIService) { s.Spec.CABundle = []byte("old") }), [3]verb{update, update, update}, "Refreshed"},
		"Insecure":          {keptBut(func(s *apiregistrationv1.APIService) { s.Spec.InsecureSkipTLSVerify = true }), [3]verb{update, update, update}, "Refreshed"},
		"AnotherPort":       {keptBut(func(s *apiregistrationv1.APIService) { s.Spec.Service.Port = ptr.To[int32](8443) }), [3]verb{update, update, update}, "Refreshed"},
		"LabelledAgain":     {keptBut(ofCRD), [3]verb{update, update, update}, "Refreshed"},
		"ByCertManager":     {keptBut(annotated(InjectAnnotation, "team/reports")), [3]verb{update, update, update}, "Refreshed"},
		"PriorityOfTheUser": {keptBut(func(s *apiregistrationv1.APIService) { s.Spec.GroupPriorityMinimum = 17 }), [3]verb{leave, leave, leave}, "Kept"},

		"ResetToCRD":         {keptBut(local, ofCRD), [3]verb{update, update, update}, retaken},
		"ResetWithoutLabel":  {keptBut(local), [3]verb{update, update, update}, retaken},
		"ResetToOtherServer": {keptBut(elsewhere), [3]verb{update, update, update}, retaken},

		"GivenBack":       {keptBut(local, ofCRD, annotated(ManagedAnnotation, "false")), [3]verb{leave, leave, leave}, "APIServiceGivenAway"},
		"OfAnotherOfOurs": {keptBut(elsewhere, annotated(ServiceAnnotation, "team/other")), [3]verb{leave, leave, leave}, "APIServiceGivenAway"},
	} {
		t.Run(name, func(t *testing.T) {
			for i, takeOver := range []TakeOver{TakeNever, TakeIfAbsent, TakeAlways} {
				got := decide(c.found, wanted(takeOver))
				if got.verb != c.want[i] {
					t.Errorf("%s: step %s does %d, want %d", takeOver, got.name, got.verb, c.want[i])
				}
				if takeOver == TakeIfAbsent && got.name != c.step {
					t.Errorf("step %s, want %s", got.name, c.step)
				}
			}
		})
	}
}

func TestDisabledGroup(t *testing.T) {
	for _, takeOver := range []TakeOver{TakeNever, TakeIfAbsent, TakeAlways} {
		w := wanted(takeOver)
		w.Group.Served = false
		for name, c := range map[string]struct {
			found *apiregistrationv1.APIService
			want  verb
		}{
			"Ours": {kept(), remove}, "Absent": {nil, leave}, "OfACRD": {keptBut(unmarked, local, ofCRD), leave},
			"OfAnotherServer": {keptBut(unmarked, elsewhere), leave}, "OfAnotherOfOurs": {keptBut(annotated(ServiceAnnotation, "a/b")), leave},
		} {
			if got := decide(c.found, w); got.verb != c.want {
				t.Errorf("%s, %s: step %s does %d, want %d", takeOver, name, got.name, got.verb, c.want)
			}
		}
	}
}

func TestNoWriteWithoutAuthority(t *testing.T) {
	w := wanted(TakeAlways)
	w.CABundle = nil
	for _, found := range []*apiregistrationv1.APIService{nil, kept(), keptBut(unmarked, local, ofCRD)} {
		if got := decide(found, w); got.verb != leave {
			t.Errorf("step %s does %d", got.name, got.verb)
		}
	}
}

func TestCertManagerWritesTheAuthority(t *testing.T) {
	w := wanted(TakeIfAbsent)
	w.CABundle, w.InjectCAFrom = nil, "team/reports"
	found := keptBut(annotated(InjectAnnotation, "team/reports"), func(s *apiregistrationv1.APIService) { s.Spec.CABundle = []byte("theirs") })
	if got := decide(found, w); got.name != "Kept" {
		t.Errorf("step %s: what cert-manager has written is not kept", got.name)
	}
	if _, written := w.spec()["caBundle"]; written {
		t.Error("the authority of cert-manager is overwritten")
	}
	if w.annotations()[InjectAnnotation] != "team/reports" {
		t.Error("cert-manager is not told")
	}
}

// TestEachRowIsReached: a row that no APIService reaches would be a decision that nobody has tried.
func TestEachRowIsReached(t *testing.T) {
	reached := map[string]bool{}
	founds := []*apiregistrationv1.APIService{
		nil, kept(), keptBut(local), keptBut(ofCRD), keptBut(unmarked), keptBut(unmarked, local, ofCRD), keptBut(unmarked, local, ofKube),
		keptBut(unmarked, elsewhere), keptBut(annotated(ManagedAnnotation, "false")),
	}
	for _, takeOver := range []TakeOver{TakeNever, TakeIfAbsent, TakeAlways} {
		for _, served := range []bool{true, false} {
			for _, bundle := range []string{"ca", ""} {
				for _, found := range founds {
					w := wanted(takeOver)
					w.Group.Served, w.CABundle = served, []byte(bundle)
					s := decide(found, w)
					reached[s.name+s.message] = true
				}
			}
		}
	}
	for _, s := range steps {
		if !reached[s.name+s.message] {
			t.Errorf("nothing reaches %s", s.name)
		}
	}
	if got := slices.Sorted(maps.Keys(reached)); len(got) != len(steps) {
		t.Errorf("%d outcomes of %d rows", len(got), len(steps))
	}
}
