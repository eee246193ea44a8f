// SPDX-License-Identifier: Apache-2.0

package apiservices

import (
	"bytes"
	"fmt"
	"strings"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

const (
	// ManagedAnnotation marks, with the value "true", an APIService that the server keeps. Whoever gives a group back sets it to something else.
	ManagedAnnotation = "reports.scanyard.io/managed"
	// ServiceAnnotation names the Service that an APIService was taken for, as namespace/name: of two releases each
	// keeps its own.
	ServiceAnnotation = "reports.scanyard.io/service"
	// InjectAnnotation has cert-manager write the authorities to trust.
	InjectAnnotation = "cert-manager.io/inject-ca-from"

	automanagedLabel = "kube-aggregator.kubernetes.io/automanaged"
	// What a CRD's APIService has, so that taking a group changes no order of groups.
	groupPriority   = 1000
	versionPriority = 100
)

// TakeOver says which groups the server takes.
type TakeOver string

// The ways to take groups.
const (
	// TakeNever makes no APIService; what is marked as ours is kept.
	TakeNever TakeOver = "never"
	// TakeIfAbsent makes APIServices where nobody has the group.
	TakeIfAbsent TakeOver = "ifAbsent"
	// TakeAlways also takes groups from CRDs, whose objects are out of sight then. Another server's group is never taken.
	TakeAlways TakeOver = "always"
)

// ParseTakeOver reads a flag.
func ParseTakeOver(s string) (TakeOver, error) {
	switch t := TakeOver(s); t {
	case TakeNever, TakeIfAbsent, TakeAlways:
		return t, nil
	}
	return "", fmt.Errorf("%q: groups are taken %s, %s or %s", s, TakeNever, TakeIfAbsent, TakeAlways)
}

// Group is a group and version that the server knows.
type Group struct {
	Group, Version string
	// Served is false for a group that is switched off.
	Served bool
}

// Name is the name of the APIService.
func (g Group) Name() string { return g.Version + "." + g.Group }

// Wanted is what an APIService should look like.
type Wanted struct {
	Group    Group
	TakeOver TakeOver
	// Namespace, Service and Port are where kube-apiserver finds the server.
	Namespace, Service string
	Port               int32
	// CABundle are the authorities to trust, unless cert-manager writes them from the Certificate InjectCAFrom.
	CABundle     []byte
	InjectCAFrom string
}

// verb is what is to be done with an APIService.
type verb int

const (
	leave verb = iota
	create
	update
	remove
)

// step is a row of the table: what was found, and what is done about it.
type step struct {
	// name is for logs and tests, and the reason of an Event where there is a message.
	name    string
	when    func(found *apiregistrationv1.APIService, w *Wanted) bool
	verb    verb
	message string
	warning bool
}

// retaken is the step that the metric counts.
const retaken = "APIServiceRetaken"

// steps is the whole decision. The first row whose when holds is taken. %s is the name of the APIService.
var steps = []step{
	{name: "SwitchedOff", when: all(notServed, ours), verb: remove},
	{name: "NotServed", when: notServed, verb: leave},
	{name: "NoAuthority", when: noAuthority, verb: leave},
	{name: "Kept", when: all(ours, calledHere, current), verb: leave},
	{name: "Refreshed", when: all(ours, calledHere), verb: update},
	{
		name: retaken, when: all(ours, exists), verb: update, warning: true,
		message: "APIService %s was set back by somebody; the annotation " + ManagedAnnotation + " says that it is ours, so it is taken again",
	},
	{
		name: "APIServiceGivenAway", when: givenAway, verb: leave, warning: true,
		message: "APIService %s is left alone: its annotations say that another release keeps it, or none",
	},
	{name: "TakeOverNever", when: never, verb: leave},
	{name: "APIServiceTaken", when: absent, verb: create, message: "APIService %s is made: reports of the group are kept here"},
	{name: "APIServiceTaken", when: calledHere, verb: update, message: "APIService %s names this server and is kept from now on"},
	{
		name: "APIServiceOfAnotherServer", when: ofAnotherServer, verb: leave, warning: true,
		message: "APIService %s belongs to another server, and is left to it",
	},
	{name: "BuiltIn", when: builtIn, verb: leave},
	{
		name: "APIServiceTaken", when: always, verb: update, warning: true,
		message: "APIService %s is taken from a CRD, as takeOver: always asks for: objects of the CRD are out of sight",
	},
	{
		name: "APIServiceOfCRD", when: exists, verb: leave, warning: true,
		message: "APIService %s belongs to a CRD, and is left to it; \"scanyard reports migrate\" moves its objects here",
	},
}

// decide looks at what was found, nil if nothing was.
func decide(found *apiregistrationv1.APIService, w *Wanted) step {
	for _, s := range steps {
		if s.when(found, w) {
			return s
		}
	}
	return step{name: "Unknown"}
}

type condition = func(*apiregistrationv1.APIService, *Wanted) bool

func all(conditions ...condition) condition {
	return func(found *apiregistrationv1.APIService, w *Wanted) bool {
		for _, c := range conditions {
			if !c(found, w) {
				return false
			}
		}
		return true
	}
}

func notServed(_ *apiregistrationv1.APIService, w *Wanted) bool { return !w.Group.Served }

// noAuthority holds before there is a certificate: an APIService without a bundle would be trusted by nobody.
func noAuthority(_ *apiregistrationv1.APIService, w *Wanted) bool {
	return len(w.CABundle) == 0 && w.InjectCAFrom == ""
}

func exists(found *apiregistrationv1.APIService, _ *Wanted) bool { return found != nil }
func absent(found *apiregistrationv1.APIService, _ *Wanted) bool { return found == nil }

// ours holds for what carries our annotation and was not taken for another release.
func ours(found *apiregistrationv1.APIService, w *Wanted) bool {
	if found == nil || found.Annotations[ManagedAnnotation] != "true" {
		return false
	}
	takenFor := found.Annotations[ServiceAnnotation]
	return takenFor == "" || takenFor == w.service()
}

// givenAway holds for what somebody has given to another server of ours, or taken from all of them.
func givenAway(found *apiregistrationv1.APIService, _ *Wanted) bool {
	return found != nil && found.Annotations[ManagedAnnotation] != ""
}

func never(_ *apiregistrationv1.APIService, w *Wanted) bool  { return w.TakeOver == TakeNever }
func always(_ *apiregistrationv1.APIService, w *Wanted) bool { return w.TakeOver == TakeAlways }

func calledHere(found *apiregistrationv1.APIService, w *Wanted) bool {
	return found != nil && found.Spec.Service != nil && found.Spec.Service.Namespace == w.Namespace && found.Spec.Service.Name == w.Service
}

func ofAnotherServer(found *apiregistrationv1.APIService, _ *Wanted) bool {
	return found.Spec.Service != nil
}

// builtIn holds for a group of kube-apiserver's own.
func builtIn(found *apiregistrationv1.APIService, _ *Wanted) bool {
	return strings.EqualFold(found.Labels[automanagedLabel], "onstart")
}

// current holds when there is nothing to write. Priorities are left to the administrator.
func current(found *apiregistrationv1.APIService, w *Wanted) bool {
	_, automanaged := found.Labels[automanagedLabel]
	return !automanaged && !found.Spec.InsecureSkipTLSVerify &&
		found.Spec.Service.Port != nil && *found.Spec.Service.Port == w.Port &&
		found.Annotations[ServiceAnnotation] == w.service() &&
		found.Annotations[InjectAnnotation] == w.InjectCAFrom &&
		(w.InjectCAFrom != "" || bytes.Equal(found.Spec.CABundle, w.CABundle))
}

func (w *Wanted) service() string { return w.Namespace + "/" + w.Service }

// manifest is what is applied where there was nothing.
func (w *Wanted) manifest() map[string]any {
	return map[string]any{
		"apiVersion": apiregistrationv1.SchemeGroupVersion.String(), "kind": "APIService",
		"metadata": map[string]any{"name": w.Group.Name(), "annotations": w.annotations()},
		"spec":     w.spec(),
	}
}

// change is a merge patch of what was found. Whoever was faster makes the patch fail by the resourceVersion.
func (w *Wanted) change(found *apiregistrationv1.APIService) map[string]any {
	annotations := w.annotations()
	if w.InjectCAFrom == "" {
		annotations[InjectAnnotation] = nil
	}
	spec := w.spec()
	spec["insecureSkipTLSVerify"] = nil
	return map[string]any{
		"metadata": map[string]any{
			"resourceVersion": found.ResourceVersion, "annotations": annotations,
			"labels": map[string]any{automanagedLabel: nil},
		},
		"spec": spec,
	}
}

func (w *Wanted) annotations() map[string]any {
	a := map[string]any{ManagedAnnotation: "true", ServiceAnnotation: w.service()}
	if w.InjectCAFrom != "" {
		a[InjectAnnotation] = w.InjectCAFrom
	}
	return a
}

func (w *Wanted) spec() map[string]any {
	spec := map[string]any{
		"group": w.Group.Group, "version": w.Group.Version, "groupPriorityMinimum": groupPriority, "versionPriority": versionPriority,
		"service": map[string]any{"namespace": w.Namespace, "name": w.Service, "port": w.Port},
	}
	if w.InjectCAFrom == "" {
		spec["caBundle"] = w.CABundle
	}
	return spec
}
