// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/apis/results"
)

// kinds are those of leftovers.
var kinds = map[string]schema.GroupVersionKind{
	"Secret":     corev1.SchemeGroupVersion.WithKind("Secret"),
	"ConfigMap":  corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	"Lease":      coordinationv1.SchemeGroupVersion.WithKind("Lease"),
	"APIService": {Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"},
}

const (
	labelName      = "app.kubernetes.io/name"
	labelComponent = "app.kubernetes.io/component"
	labelManagedBy = "app.kubernetes.io/managed-by"
	labelPartOf    = "app.kubernetes.io/part-of"
)

const registryAuthority = "scanyard-registry"

// authorities are those that our programs make, by name, each with what its certificates are for.
var authorities = map[string]string{
	"scanyard-ca":         "a certificate of the operator, with its key",
	registryAuthority:     "a certificate of registry scanning, with its key",
	"scanyard-reports-ca": "a certificate of the reports API server, with its key",
}

// readCertificates finds the Secrets that programs have made for their servers by who has signed the certificate: their names
// depend on values of charts. What Helm has made Helm removes.
func (i *Inventory) readCertificates(ctx context.Context, c client.Client) error {
	var all corev1.SecretList
	if err := c.List(ctx, &all, client.MatchingFields{"type": string(corev1.SecretTypeTLS)}); err != nil {
		return fmt.Errorf("list the Secrets with certificates: %w", err)
	}
	for n := range all.Items {
		s := &all.Items[n]
		holds := authorities[signer(s.Data[corev1.TLSCertKey])]
		if holds == "" || !s.DeletionTimestamp.IsZero() || s.Labels[labelManagedBy] == "Helm" {
			continue
		}
		if len(s.Data["controller-password"]) > 0 {
			holds += ", and the passwords of its queue"
		}
		i.Leftovers = append(i.Leftovers, Leftover{NamespacedName: keyOf(s), Kind: "Secret", Holds: holds})
	}
	return nil
}

// signer is the name of who has signed a certificate; empty where it cannot be read.
func signer(certificate []byte) string {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return ""
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return ""
	}
	return parsed.Issuer.CommonName
}

// named is an object that a program makes under a name that nobody can change.
type named struct {
	Leftover

	// is says whether an object of that name is ours.
	is func(client.Object) bool
}

func ofProject(o client.Object) bool { return o.GetLabels()[labelPartOf] == "scanyard" }

// allNamed are the objects that programs make under fixed names.
var allNamed = []named{
	{
		Leftover{Kind: "ConfigMap", Holds: "the authority of the operator's results endpoint", NamespacedName: client.ObjectKey{Name: results.CAConfigMap}},
		func(o client.Object) bool {
			return strings.HasPrefix(o.GetAnnotations()["description"], "Authority of the operator's results endpoint")
		},
	},
	{
		Leftover{
			Kind: "Secret", Holds: "the keys by which the forwarder seals what it notes in Scans",
			NamespacedName: client.ObjectKey{Name: "scanyard-forwarding-seal"},
		},
		ofProject,
	},
	{
		Leftover{
			Kind: "ConfigMap", Holds: "the ID by which receivers know this cluster", NamespacedName: client.ObjectKey{Name: "scanyard-cluster-id"},
			Kept: "a later installation takes it up",
		},
		ofProject,
	},
	{
		Leftover{
			Kind: "ConfigMap", Holds: "how far reports were moved by \"reports migrate\"", NamespacedName: client.ObjectKey{Name: "reports-migration"},
			Kept: "moving them back needs it",
		},
		func(o client.Object) bool {
			return slices.ContainsFunc(o.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
				return strings.HasPrefix(f.Manager, "scanyard-reports-migrate")
			})
		},
	},
}

func (i *Inventory) readNamed(ctx context.Context, c client.Client) error {
	for _, want := range allNamed {
		found := &metav1.PartialObjectMetadataList{}
		found.SetGroupVersionKind(kinds[want.Kind].GroupVersion().WithKind(want.Kind + "List"))
		if err := c.List(ctx, found, client.MatchingFields{metav1.ObjectNameField: want.Name}); err != nil {
			return fmt.Errorf("list the %ss %s: %w", want.Kind, want.Name, err)
		}
		for n := range found.Items {
			if o := &found.Items[n]; o.DeletionTimestamp.IsZero() && want.is(o) {
				l := want.Leftover
				l.NamespacedName = keyOf(o)
				i.Leftovers = append(i.Leftovers, l)
			}
		}
	}
	return nil
}

// leases are those by which one of several replicas works, each with whose it is. The name "registry-controller" is a common
// one: the Lease counts where a certificate of ours is beside it.
var leases = []struct{ name, program, beside string }{
	{"e341d981.securecodebox.io", "the operator", ""},
	{"0e41a1f4.securecodebox.io", "auto-discovery", ""},
	{"scanyard-forwarder", "the forwarder", ""},
	{"registry-controller", "registry scanning", registryAuthority},
}

func (i *Inventory) readLeases(now time.Time) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		for n := range leases {
			var all coordinationv1.LeaseList
			if err := c.List(ctx, &all, client.MatchingFields{metav1.ObjectNameField: leases[n].name}); err != nil {
				return fmt.Errorf("list the Leases %s: %w", leases[n].name, err)
			}
			i.addLeases(all.Items, leases[n].program, leases[n].beside, now)
		}
		return nil
	}
}

func (i *Inventory) addLeases(all []coordinationv1.Lease, program, beside string, now time.Time) {
	for n := range all {
		o := &all[n]
		if !o.DeletionTimestamp.IsZero() || beside != "" && !i.hasBeside(o.Namespace, authorities[beside]) {
			continue
		}
		l := Leftover{NamespacedName: keyOf(o), Kind: "Lease", Holds: "which replica of " + program + " works"}
		if isHeld(&o.Spec, now) {
			l.Kept = "a replica holds it now; call this again when the program has ended"
		}
		// In front of the Secrets by which a later run finds it.
		i.Leftovers = slices.Insert(i.Leftovers, 0, l)
	}
}

func (i *Inventory) hasBeside(namespace, holds string) bool {
	return slices.ContainsFunc(i.Leftovers, func(l Leftover) bool { return l.Namespace == namespace && strings.HasPrefix(l.Holds, holds) })
}

// isHeld says whether a program works by a Lease. One that has ended gives it back, and one that was killed renews it no more.
func isHeld(l *coordinationv1.LeaseSpec, now time.Time) bool {
	if l.HolderIdentity == nil || *l.HolderIdentity == "" || l.RenewTime == nil || l.LeaseDurationSeconds == nil {
		return false
	}
	return now.Before(l.RenewTime.Add(time.Duration(*l.LeaseDurationSeconds) * time.Second))
}

// keptByReports is the annotation of the APIServices that the reports API server keeps.
const keptByReports = "reports.scanyard.io/managed"

// readAPIServices finds those that are there without the reports API server: the chart's hook gives them back, unless Helm was told
// to call no hooks. An APIService without a server keeps every namespace from being deleted.
func (i *Inventory) readAPIServices(ctx context.Context, c client.Client) error {
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIServiceList"})
	if err := c.List(ctx, all); err != nil {
		return fmt.Errorf("list APIServices: %w", err)
	}
	for n := range all.Items {
		if o := &all.Items[n]; o.DeletionTimestamp.IsZero() && o.Annotations[keptByReports] == "true" {
			i.Leftovers = append(i.Leftovers, Leftover{NamespacedName: keyOf(o), Kind: "APIService", Holds: "where the reports API server was"})
		}
	}
	return nil
}

// labelBoard is on the boards of the console.
const labelBoard = "scanyard.io/board"

func (i *Inventory) readBoards(ctx context.Context, c client.Client) error {
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	if err := c.List(ctx, all, client.HasLabels{labelBoard}); err != nil {
		return fmt.Errorf("list the boards of the console: %w", err)
	}
	for n := range all.Items {
		i.Boards = append(i.Boards, keyOf(&all.Items[n]))
	}
	return nil
}
