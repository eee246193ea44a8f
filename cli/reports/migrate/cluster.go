// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

const (
	// fieldManager is what managedFields say of what is written by a move.
	fieldManager = "scanyard-reports-migrate"
	// managedAnnotation and serviceAnnotation mark an APIService as the reports API server's.
	managedAnnotation = "reports.scanyard.io/managed"
	serviceAnnotation = "reports.scanyard.io/service"
	injectAnnotation  = "cert-manager.io/inject-ca-from"
	// remindedAnnotation counts how often the deletion of a CRD was asked for again.
	remindedAnnotation = "reports.scanyard.io/deletion-asked-again"
	// automanagedLabel has kube-apiserver set an APIService back to its CRD.
	automanagedLabel = "kube-aggregator.kubernetes.io/automanaged"

	pageObjects = 250
	// metadataObjects is the size of pages of metadata, which are small.
	metadataObjects = 5_000
)

var (
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	imports     = reportsv1alpha1.SchemeGroupVersion.WithResource("reportimports")
	ownGroup    = "v1alpha1.reports.scanyard.io"
)

// cluster is what is read and written.
type cluster struct {
	dynamic  dynamic.Interface
	metadata metadata.Interface
	typed    kubernetes.Interface
	now      func() time.Time
}

func connect(config *rest.Config, now func() time.Time) (*cluster, error) {
	c := &cluster{now: now}
	var errs [3]error
	c.dynamic, errs[0] = dynamic.NewForConfig(config)
	c.metadata, errs[1] = metadata.NewForConfig(config)
	c.typed, errs[2] = kubernetes.NewForConfig(config)
	return c, errors.Join(errs[:]...)
}

// findServer finds the reports API server by the APIService of its own group, which no CRD ever has.
func (c *cluster) findServer(ctx context.Context) (*reportsServer, error) {
	const install = "install or repair it first (chart reports)"
	service, err := c.dynamic.Resource(apiServices).Get(ctx, ownGroup, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, errors.New("the cluster has no reports API server: there is no APIService " + ownGroup + "; " + install)
	}
	if err != nil {
		return nil, fmt.Errorf("get APIService %s: %w", ownGroup, err)
	}
	s := &reportsServer{port: 443, inject: service.GetAnnotations()[injectAnnotation]}
	spec, _, _ := unstructured.NestedMap(service.Object, "spec")
	reference, _ := spec["service"].(map[string]any)
	s.namespace, _ = reference["namespace"].(string)
	s.service, _ = reference["name"].(string)
	if port, ok := reference["port"].(int64); ok {
		s.port = port
	}
	s.caBundle = spec["caBundle"]
	if s.namespace == "" || s.service == "" {
		return nil, fmt.Errorf("APIService %s names no Service; %s", ownGroup, install)
	}
	if ready, why := available(service); !ready {
		return nil, fmt.Errorf("the reports API server is not ready: APIService %s is not available: %s; %s", ownGroup, why, install)
	}
	status, err := c.send(ctx, &reportsv1alpha1.ReportImportSpec{MinResourceVersion: new(int64(1))}, true)
	if apierrors.IsNotFound(err) {
		return nil, errors.New("the reports API server does not serve reportimports of reports.scanyard.io/v1alpha1: update it to the version of this program")
	}
	if err != nil {
		return nil, fmt.Errorf("ask the reports API server for its state: %w", err)
	}
	s.freeBytes = status.FreeBytes
	return s, nil
}

// available reports whether kube-apiserver reaches the Service of an APIService.
func available(service *unstructured.Unstructured) (ready bool, why string) {
	conditions, _, _ := unstructured.NestedSlice(service.Object, "status", "conditions")
	for _, item := range conditions {
		condition, _ := item.(map[string]any)
		if condition["type"] == "Available" {
			why, _ = condition["message"].(string)
			return condition["status"] == "True", why
		}
	}
	return false, "its condition Available is not set"
}

// look finds out how far a group is.
func (c *cluster) look(ctx context.Context, g group, server *reportsServer) (*groupSeen, error) {
	seen := &groupSeen{group: g}
	service, err := c.dynamic.Resource(apiServices).Get(ctx, g.apiService(), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("get APIService %s: %w", g.apiService(), err)
	}
	if err == nil {
		seen.owner, seen.foreign = ownerOf(service, server)
	}
	for _, r := range g.resources {
		crd, err := c.dynamic.Resource(crds).Get(ctx, g.crd(r), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("get CRD %s: %w", g.crd(r), err)
		}
		versions := servedVersions(crd)
		seen.sources = append(seen.sources, source{resource: r, version: g.readFrom(versions), unserved: len(versions) == 0})
	}
	seen.state, err = c.readState(ctx, server, &g)
	return seen, err
}

// ownerOf returns which server serves a group, and the Service of another server.
func ownerOf(service *unstructured.Unstructured, server *reportsServer) (who owner, foreign string) {
	reference, there, _ := unstructured.NestedMap(service.Object, "spec", "service")
	if !there || len(reference) == 0 {
		return ownerLocal, ""
	}
	name := fmt.Sprintf("%v/%v", reference["namespace"], reference["name"])
	if name == server.String() {
		return ownerOurs, ""
	}
	return ownerForeign, name
}

func servedVersions(crd *unstructured.Unstructured) []string {
	var names []string
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, item := range versions {
		version, _ := item.(map[string]any)
		if name, ok := version["name"].(string); ok && version["served"] == true {
			names = append(names, name)
		}
	}
	return names
}

// measure counts the objects of a CRD. Their bytes are those of the first page, multiplied.
func (c *cluster) measure(ctx context.Context, g *group, s *source) error {
	page, err := c.reader(g, s).List(ctx, metav1.ListOptions{Limit: pageObjects})
	if err != nil {
		return fmt.Errorf("list %s: %w", s.resource.plural, err)
	}
	n := int64(len(page.Items))
	s.objects = n
	if remaining := page.GetRemainingItemCount(); remaining != nil {
		s.objects += *remaining
	}
	for i := range page.Items {
		text, err := page.Items[i].MarshalJSON()
		if err != nil {
			return err
		}
		s.bytes += int64(len(text))
	}
	if n > 0 {
		s.bytes = s.bytes / n * s.objects
	}
	return nil
}

func (c *cluster) reader(g *group, s *source) dynamic.NamespaceableResourceInterface {
	return c.dynamic.Resource(schema.GroupVersionResource{Group: g.name, Version: s.version, Resource: s.resource.plural})
}

// each reads all objects of a CRD, page by page. Where the pages' moment is too old, the rest is read as of now.
func (c *cluster) each(ctx context.Context, g *group, s *source, do func([]unstructured.Unstructured) error) error {
	return pages(pageObjects, metav1.ListOptions{}, func(options metav1.ListOptions) (metav1.ListInterface, error) {
		page, err := c.reader(g, s).List(ctx, options)
		if err != nil {
			return nil, err
		}
		return page, do(page.Items)
	})
}

// pages reads a list in pages. Where the moment of the first page is too old for the next, the rest is read as of now.
func pages(size int64, options metav1.ListOptions, read func(metav1.ListOptions) (metav1.ListInterface, error)) error {
	options.Limit = size
	for {
		page, err := read(options)
		if apierrors.IsResourceExpired(err) && options.Continue != "" {
			status := apierrors.APIStatus(nil)
			if errors.As(err, &status) && status.Status().Continue != "" {
				options.Continue = status.Status().Continue
				continue
			}
		}
		if err != nil {
			return err
		}
		options.Continue, options.ResourceVersion, options.ResourceVersionMatch = page.GetContinue(), "", ""
		if options.Continue == "" {
			return nil
		}
	}
}

// present lists the metadata of a CRD's objects, and the resourceVersion of the list.
func (c *cluster) present(ctx context.Context, g *group, s *source, into map[place]present) (version int64, err error) {
	resource := c.metadata.Resource(schema.GroupVersionResource{Group: g.name, Version: s.version, Resource: s.resource.plural})
	err = pages(metadataObjects, metav1.ListOptions{}, func(options metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := resource.List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", s.resource.plural, err)
		}
		for i := range list.Items {
			m := &list.Items[i]
			into[place{s.resource.plural, m.Namespace, m.Name}] = present{string(m.UID), m.ResourceVersion, len(m.Finalizers) > 0}
		}
		now, err := strconv.ParseInt(list.ResourceVersion, 10, 64)
		version = max(version, now)
		return list, err
	})
	return version, err
}

// send has the server import reports.
func (c *cluster) send(ctx context.Context, spec *reportsv1alpha1.ReportImportSpec, dry bool) (*reportsv1alpha1.ReportImportStatus, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&reportsv1alpha1.ReportImport{
		TypeMeta:   metav1.TypeMeta{APIVersion: reportsv1alpha1.SchemeGroupVersion.String(), Kind: "ReportImport"},
		ObjectMeta: metav1.ObjectMeta{Name: "migration"}, Spec: *spec,
	})
	if err != nil {
		return nil, err
	}
	options := metav1.CreateOptions{}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	answer, err := c.dynamic.Resource(imports).Create(ctx, &unstructured.Unstructured{Object: content}, options)
	if err != nil {
		return nil, err
	}
	back := &reportsv1alpha1.ReportImport{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, back); err != nil {
		return nil, fmt.Errorf("read the answer of the reports API server: %w", err)
	}
	return &back.Status, nil
}

// readState reads what is noted of a group.
func (c *cluster) readState(ctx context.Context, server *reportsServer, g *group) (state, error) {
	noted, err := c.typed.CoreV1().ConfigMaps(server.namespace).Get(ctx, stateName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return state{}, nil
	}
	if err != nil {
		return state{}, fmt.Errorf("get ConfigMap %s: %w", stateName, err)
	}
	return decodeState(noted.Data[g.name])
}

// note writes down how far a group is.
func (c *cluster) note(ctx context.Context, server *reportsServer, g *group, s *state) error {
	s.Updated = c.now().UTC().Format(time.RFC3339)
	text, err := s.encode()
	if err != nil {
		return err
	}
	noted := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: server.namespace, Name: stateName}, Data: map[string]string{g.name: text},
	}
	// Each group's key has a manager of its own, so that one leaves the other's alone.
	return c.applyConfigMap(ctx, noted, fieldManager+"-"+g.name)
}

func (c *cluster) applyConfigMap(ctx context.Context, wanted *corev1.ConfigMap, manager string) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return err
	}
	configMaps := c.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(wanted.Namespace)
	_, err = configMaps.Apply(ctx, wanted.Name, &unstructured.Unstructured{Object: content}, metav1.ApplyOptions{FieldManager: manager, Force: true})
	if err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", wanted.Name, err)
	}
	return nil
}

// writeRecord writes down objects, behind the parts that there are. It returns the number of all parts.
func (c *cluster) writeRecord(ctx context.Context, server *reportsServer, g *group, behind int, objects map[place]copied) (int, error) {
	parts, err := encodeRecord(objects)
	if err != nil {
		return 0, err
	}
	for i, part := range parts {
		err := c.applyConfigMap(ctx, &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: server.namespace, Name: recordName(g, behind+i)}, BinaryData: map[string][]byte{recordKey: part},
		}, fieldManager)
		if err != nil {
			return 0, err
		}
	}
	return behind + len(parts), nil
}

// readRecord reads what was written down.
func (c *cluster) readRecord(ctx context.Context, server *reportsServer, g *group, parts int) ([]recorded, error) {
	var lines []recorded
	for i := range parts {
		part, err := c.typed.CoreV1().ConfigMaps(server.namespace).Get(ctx, recordName(g, i), metav1.GetOptions{})
		var more []recorded
		if err == nil {
			more, err = decodeRecord(part.BinaryData[recordKey])
		}
		if err != nil {
			return nil, fmt.Errorf("read ConfigMap %s, the record of what was copied: %w", recordName(g, i), err)
		}
		lines = append(lines, more...)
	}
	return lines, nil
}

// dropRecord deletes parts of the record.
func (c *cluster) dropRecord(ctx context.Context, server *reportsServer, g *group, first, end int) error {
	for i := first; i < end; i++ {
		err := c.typed.CoreV1().ConfigMaps(server.namespace).Delete(ctx, recordName(g, i), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete ConfigMap %s: %w", recordName(g, i), err)
		}
	}
	return nil
}

// freeze has writes to a group refused.
func (c *cluster) freeze(ctx context.Context, server *reportsServer, g *group, manager string) error {
	job, policy, binding := freezeObjects(g, server.namespace, manager)
	if _, err := c.typed.BatchV1().Jobs(server.namespace).Create(ctx, job, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the Job that ends the freeze: %w", err)
	}
	if _, err := c.typed.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create ValidatingAdmissionPolicy %s: %w", policyName, err)
	}
	if _, err := c.typed.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create ValidatingAdmissionPolicyBinding %s: %w", policyName, err)
	}
	return nil
}

// unfreeze removes all that freeze makes, also what an earlier run has left, and also when ctx has ended.
func (c *cluster) unfreeze(ctx context.Context, namespace string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unfreezeTime)
	defer cancel()
	bindings, policies := c.typed.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings(), c.typed.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	var errs []error
	for _, remove := range []func() error{
		func() error { return bindings.Delete(ctx, policyName, metav1.DeleteOptions{}) },
		func() error { return policies.Delete(ctx, policyName, metav1.DeleteOptions{}) },
		func() error {
			return c.typed.BatchV1().Jobs(namespace).Delete(ctx, policyName, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
		},
	} {
		if err := remove(); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf(
			"remove the policy that refuses writes (it is without effect after %s; delete ValidatingAdmissionPolicy %s by hand): %w",
			freezeTime, policyName, err,
		)
	}
	return nil
}

// switched makes the APIService of a group the server's, in one write. It keeps what others have written beside it.
func switched(existing *unstructured.Unstructured, g *group, server *reportsServer) *unstructured.Unstructured {
	wanted := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiServices.GroupVersion().String(), "kind": "APIService", "metadata": map[string]any{"name": g.apiService()},
		"spec": map[string]any{"group": g.name, "version": g.version, "groupPriorityMinimum": int64(1000), "versionPriority": int64(100)},
	}}
	if existing != nil {
		wanted = existing.DeepCopy()
		unstructured.RemoveNestedField(wanted.Object, "status")
	}
	labels, annotations := wanted.GetLabels(), wanted.GetAnnotations()
	delete(labels, automanagedLabel)
	wanted.SetLabels(labels)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[managedAnnotation], annotations[serviceAnnotation] = "true", server.String()
	if server.inject != "" {
		annotations[injectAnnotation] = server.inject
	}
	wanted.SetAnnotations(annotations)
	spec := wanted.Object["spec"].(map[string]any)
	delete(spec, "insecureSkipTLSVerify")
	spec["service"] = map[string]any{"namespace": server.namespace, "name": server.service, "port": server.port}
	if server.caBundle != nil {
		spec["caBundle"] = server.caBundle
	}
	return wanted
}

// switchOver gives a group to the server.
func (c *cluster) switchOver(ctx context.Context, g *group, server *reportsServer) error {
	services := c.dynamic.Resource(apiServices)
	for {
		existing, err := services.Get(ctx, g.apiService(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = services.Create(ctx, switched(nil, g, server), metav1.CreateOptions{FieldManager: fieldManager})
		case err == nil:
			_, err = services.Update(ctx, switched(existing, g, server), metav1.UpdateOptions{FieldManager: fieldManager})
		}
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			continue // another client has written it in between
		}
		if err != nil {
			return fmt.Errorf("write APIService %s: %w", g.apiService(), err)
		}
		return nil
	}
}

// unserve ends the watches on etcd: a CRD whose versions change ends them.
func (c *cluster) unserve(ctx context.Context, g *group, r resource) error {
	for {
		crd, err := c.dynamic.Resource(crds).Get(ctx, g.crd(r), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("get CRD %s: %w", g.crd(r), err)
		}
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, item := range versions {
			if version, ok := item.(map[string]any); ok {
				version["served"] = false
			}
		}
		if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
			return err
		}
		_, err = c.dynamic.Resource(crds).Update(ctx, crd, metav1.UpdateOptions{FieldManager: fieldManager})
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("end the versions of CRD %s: %w", g.crd(r), err)
		}
		return nil
	}
}

// remind has kube-apiserver try again to delete the objects of a CRD. Its first try fails where the cache of the objects is not
// filled yet. It then writes that into the status of the CRD; its next try conflicts with this status, if it has not seen it,
// and ends without another one for up to five minutes. Any other change of the CRD wakes it.
func (c *cluster) remind(ctx context.Context, crd string, times int) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, remindedAnnotation, times)
	_, err := c.dynamic.Resource(crds).Patch(ctx, crd, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

// clearFinalizers takes the finalizers off an object in etcd and notes them in an annotation.
func (c *cluster) clearFinalizers(ctx context.Context, g *group, s *source, at place, manager string) error {
	resource := c.reader(g, s).Namespace(at.Namespace)
	object, err := resource.Get(ctx, at.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get %s: %w", at, err)
	}
	if len(object.GetFinalizers()) == 0 {
		return nil
	}
	patch, err := withoutFinalizers(string(object.GetUID()), object.GetFinalizers())
	if err != nil {
		return err
	}
	if _, err := resource.Patch(ctx, at.Name, "application/merge-patch+json", patch, metav1.PatchOptions{FieldManager: manager}); err != nil {
		return fmt.Errorf("take the finalizers off %s: %w", at, err)
	}
	return nil
}

// raw is an object as a ReportImport holds it.
func raw(u *unstructured.Unstructured) (runtime.RawExtension, error) {
	text, err := json.Marshal(u.Object)
	return runtime.RawExtension{Raw: text}, err
}
