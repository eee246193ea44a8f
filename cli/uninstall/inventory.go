// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cascadingv1 "github.com/scanyard/scanyard/apis/cascading/v1"
	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// groups are those whose kinds are ours.
var groups = []string{
	executionv1.SchemeGroupVersion.Group, cascadingv1.SchemeGroupVersion.Group, settingsv1alpha2.SchemeGroupVersion.Group,
	registryv1alpha1.SchemeGroupVersion.Group,
}

// shared are the accounts that the operator makes in namespaces that scan.
var shared = []string{executionv1.ServiceAccountLurker, executionv1.ServiceAccountParser, executionv1.ServiceAccountHook}

// home is the home of our charts.
const home = "https://github.com/scanyard/scanyard"

// Read reads what there is in the cluster.
func Read(ctx context.Context, c client.Client, now time.Time) (Inventory, error) {
	var i Inventory
	for _, read := range []func(context.Context, client.Client) error{
		i.readCRDs, i.readReleases, i.readOperator, i.readAccounts, i.readCertificates, i.readNamed, i.readLeases(now), i.readAPIServices, i.readBoards,
		i.readVolumes,
	} {
		if err := read(ctx, c); err != nil {
			return i, err
		}
	}
	return i, nil
}

func (i *Inventory) readCRDs(ctx context.Context, c client.Client) error {
	var all apiextensionsv1.CustomResourceDefinitionList
	if err := c.List(ctx, &all); err != nil {
		return fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	for n := range all.Items {
		crd := &all.Items[n]
		if !slices.Contains(groups, crd.Spec.Group) || !crd.DeletionTimestamp.IsZero() {
			continue
		}
		objects, err := list(ctx, c, servedAs(crd))
		if err != nil {
			return err
		}
		i.add(crd, objects)
	}
	return nil
}

// servedAs is the kind in the version that is stored, or else in one that is served.
func servedAs(crd *apiextensionsv1.CustomResourceDefinition) schema.GroupVersionKind {
	gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
	for _, v := range crd.Spec.Versions {
		if v.Served && (gvk.Version == "" || v.Storage) {
			gvk.Version = v.Name
		}
	}
	return gvk
}

// add notes a kind with its objects. Scans and schedules have steps of their own.
func (i *Inventory) add(crd *apiextensionsv1.CustomResourceDefinition, objects []metav1.PartialObjectMetadata) {
	others := 0
	for n := range objects {
		o := &objects[n]
		switch crd.Spec.Names.Kind {
		case "Scan":
			others := ofOthers(o.Finalizers)
			i.Scans = append(i.Scans, Scan{keyOf(o), len(o.Finalizers) > len(others), others})
		case "ScheduledScan":
			i.Schedules = append(i.Schedules, keyOf(o))
		default:
			others++
		}
	}
	i.CRDs = append(i.CRDs, CRD{crd.Name, others})
}

func keyOf(o client.Object) types.NamespacedName { return client.ObjectKeyFromObject(o) }

// list reads the metadata of all objects of a kind.
func list(ctx context.Context, c client.Client, gvk schema.GroupVersionKind) ([]metav1.PartialObjectMetadata, error) {
	var out []metav1.PartialObjectMetadata
	next := ""
	for {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := c.List(ctx, page, client.Limit(pageSize), client.Continue(next))
		if apierrors.IsNotFound(err) { // the kind has gone since
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list objects of kind %s: %w", gvk.Kind, err)
		}
		out = append(out, page.Items...)
		if next = page.Continue; next == "" {
			return out, nil
		}
	}
}

// pageSize is how many objects one request asks for, as in kubectl.
const pageSize = 500

// readReleases reads which of Helm's releases are of our charts. Helm keeps each as a Secret, unless it is told otherwise.
func (i *Inventory) readReleases(ctx context.Context, c client.Client) error {
	var all corev1.SecretList
	if err := c.List(ctx, &all, client.MatchingLabels{"owner": "helm", "status": "deployed"}); err != nil {
		return fmt.Errorf("list the releases of Helm: %w", err)
	}
	for n := range all.Items {
		s := &all.Items[n]
		chart, ours, err := chartOf(s.Data["release"])
		if err != nil {
			return fmt.Errorf("read release %s in namespace %s: %w", s.Labels["name"], s.Namespace, err)
		}
		if ours {
			i.Releases = append(i.Releases, Release{types.NamespacedName{Namespace: s.Namespace, Name: s.Labels["name"]}, chart})
		}
	}
	return nil
}

// maxRelease bounds what is read of a release; a Secret holds a MiB, compressed.
const maxRelease = 64 << 20

// chartOf returns the chart of a release, and whether the chart is ours. Helm stores JSON, compressed by gzip, as base64.
func chartOf(release []byte) (name string, ours bool, err error) {
	packed, err := base64.StdEncoding.DecodeString(string(release))
	if err != nil {
		return "", false, err
	}
	var text io.Reader = bytes.NewReader(packed)
	if bytes.HasPrefix(packed, []byte{0x1f, 0x8b}) {
		if text, err = gzip.NewReader(text); err != nil {
			return "", false, err
		}
	}
	var said struct {
		Chart struct {
			Metadata struct{ Name, Home string }
		}
	}
	if err := json.NewDecoder(io.LimitReader(text, maxRelease)).Decode(&said); err != nil {
		return "", false, err
	}
	return said.Chart.Metadata.Name, said.Chart.Metadata.Home == home, nil
}

func (i *Inventory) readOperator(ctx context.Context, c client.Client) error {
	var all appsv1.DeploymentList
	if err := c.List(ctx, &all); err != nil {
		return fmt.Errorf("list Deployments: %w", err)
	}
	for n := range all.Items {
		d := &all.Items[n]
		if d.Spec.Template.Labels["control-plane"] != "securecodebox-controller-manager" {
			continue
		}
		i.Operator = true
		i.Works = i.Works || d.Status.AvailableReplicas > 0
	}
	return nil
}

// readAccounts finds the accounts that the operator has made by their bindings: each binds the Role of its own name to the
// account of its own name. Another account called "parser" is somebody else's.
func (i *Inventory) readAccounts(ctx context.Context, c client.Client) error {
	var all rbacv1.RoleBindingList
	if err := c.List(ctx, &all); err != nil {
		return fmt.Errorf("list RoleBindings: %w", err)
	}
	for n := range all.Items {
		if b := &all.Items[n]; slices.Contains(shared, b.Name) && b.Labels["app.kubernetes.io/managed-by"] != "Helm" &&
			b.RoleRef.Kind == "Role" && b.RoleRef.Name == b.Name &&
			len(b.Subjects) == 1 && b.Subjects[0].Kind == rbacv1.ServiceAccountKind && b.Subjects[0].Name == b.Name {
			i.Accounts = append(i.Accounts, keyOf(b))
		}
	}
	return nil
}
