// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
)

// transitVersion is a version of the CRDs that is there only while reports are moved back. kube-apiserver has it itself
// though the server has the group's own version, so that etcd can be written before the switch.
const transitVersion = "v1transit"

// inTransit is how a CRD is written while the server has the group.
func (g *group) inTransit(r resource) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: g.name, Version: transitVersion, Resource: r.plural}
}

// backStep is what is to be done with a group on the way back.
type backStep int

const (
	// backNothing: the CRDs have the group.
	backNothing backStep = iota
	// backMove: from the beginning.
	backMove
	// backSettle: behind the switch.
	backSettle
)

// nextBack decides what is to be done with a group.
func nextBack(g *groupSeen) backStep {
	switch {
	case g.owner == ownerLocal && g.state.Phase == phaseReturning:
		return backSettle
	case g.owner != ownerOurs:
		return backNothing
	case len(g.sources) == 0 && g.returning == 0 && g.counted:
		return backNothing
	}
	return backMove
}

// refusalBack is why a group cannot be moved back, and what to do; nil if it can.
func refusalBack(g *groupSeen, program string) error {
	if g.owner == ownerForeign {
		return refusal(g, stepForeign, program)
	}
	if nextBack(g) != backMove || len(g.sources) == len(g.group.resources) {
		return nil
	}
	var missing []string
	for _, r := range g.group.resources {
		if !slices.ContainsFunc(g.sources, func(s source) bool { return s.resource.plural == r.plural }) {
			missing = append(missing, g.group.crd(r))
		}
	}
	return fmt.Errorf("the cluster lacks CRD %s: install it first, as the chart of your policy engine does, and run \"%s reports migrate --back\" again. "+
		"While the reports API server has the group, an installed CRD changes nothing", strings.Join(missing, " and "), program)
}

// versionsOf changes the versions of a CRD; errors name what it lacks.
type versionsOf func(g *group, versions []any) ([]any, error)

// opened has the group's version served, and beside it one that is the same under another name.
func opened(g *group, versions []any) ([]any, error) {
	versions, err := closed(g, versions)
	if err != nil {
		return nil, err
	}
	for _, item := range versions {
		version, ok := item.(map[string]any)
		if !ok || version["name"] != g.version {
			continue
		}
		version["served"] = true
		transit := maps.Clone(version)
		transit["name"], transit["storage"] = transitVersion, false
		return append(versions, transit), nil
	}
	return nil, fmt.Errorf("it has no version %s", g.version)
}

// closed takes that version away again.
func closed(_ *group, versions []any) ([]any, error) {
	return slices.DeleteFunc(slices.Clone(versions), func(item any) bool {
		version, ok := item.(map[string]any)
		return ok && version["name"] == transitVersion
	}), nil
}

// changeVersions changes the versions of a CRD.
func (c *cluster) changeVersions(ctx context.Context, g *group, r resource, change versionsOf) error {
	for {
		crd, err := c.dynamic.Resource(crds).Get(ctx, g.crd(r), metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("get CRD %s: %w", g.crd(r), err)
		}
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		versions, err = change(g, versions)
		if err == nil {
			err = unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions")
		}
		if err == nil {
			_, err = c.dynamic.Resource(crds).Update(ctx, crd, metav1.UpdateOptions{FieldManager: fieldManager})
		}
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("change the versions of CRD %s: %w", g.crd(r), err)
		}
		return nil
	}
}

// home is the group that a report was written in first: at the server all groups show all reports.
func home(managers []metav1.ManagedFieldsEntry) string {
	var oldest *metav1.ManagedFieldsEntry
	for i := range managers {
		entry := &managers[i]
		if entry.Time != nil && (oldest == nil || entry.Time.Before(oldest.Time)) {
			oldest = entry
		}
	}
	if oldest != nil {
		name, _, _ := strings.Cut(oldest.APIVersion, "/")
		if slices.Contains(groupNames(), name) {
			return name
		}
	}
	return groups[0].name
}

// eachHome reads the metadata of the server's reports that belong to a group.
func (c *cluster) eachHome(ctx context.Context, g *group, r resource, do func(*metav1.PartialObjectMetadata)) error {
	reports := c.metadata.Resource(g.served(r))
	return pages(metadataObjects, metav1.ListOptions{}, func(options metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := reports.List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", r.plural, err)
		}
		for i := range list.Items {
			if home(list.Items[i].ManagedFields) == g.name {
				do(&list.Items[i])
			}
		}
		return list, nil
	})
}

func (c *cluster) countHome(ctx context.Context, g *group) (n int64, err error) {
	for _, r := range g.resources {
		if err := c.eachHome(ctx, g, r, func(*metav1.PartialObjectMetadata) { n++ }); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// isReport reports whether an owner is a report.
func isReport(owner *metav1.OwnerReference) bool {
	name, _, _ := strings.Cut(owner.APIVersion, "/")
	i := slices.IndexFunc(groups, func(g group) bool { return g.name == name })
	return i >= 0 && slices.ContainsFunc(groups[i].resources, func(r resource) bool { return r.kind == owner.Kind })
}

// returned makes of a report of the server what is written to etcd. Owners that are reports get their new uids; waits is
// true if one has none yet.
func returned(g *group, u *unstructured.Unstructured, newUID func(string) string) (sent *unstructured.Unstructured, waits bool) {
	sent = u.DeepCopy()
	sent.SetAPIVersion(g.name + "/" + transitVersion)
	for _, field := range []string{
		"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "managedFields",
	} {
		unstructured.RemoveNestedField(sent.Object, "metadata", field)
	}
	owners := sent.GetOwnerReferences()
	kept := make([]metav1.OwnerReference, 0, len(owners))
	for i := range owners {
		if isReport(&owners[i]) {
			uid := newUID(string(owners[i].UID))
			if uid == "" {
				waits = true
				continue
			}
			owners[i].UID = types.UID(uid)
		}
		kept = append(kept, owners[i])
	}
	if len(owners) > 0 {
		sent.SetOwnerReferences(kept)
	}
	return sent, waits
}

// returnedHash is the hash of what must be the same at the server and in etcd.
func returnedHash(u *unstructured.Unstructured) (string, error) {
	content := maps.Clone(u.Object)
	delete(content, "apiVersion")
	delete(content, "kind")
	metadata := map[string]any{}
	given, _ := u.Object["metadata"].(map[string]any)
	for _, field := range []string{"name", "namespace", "labels", "annotations", "finalizers"} {
		metadata[field] = given[field]
	}
	content["metadata"] = metadata
	text, err := json.Marshal(pruned(content))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12]), nil
}

// managersPatch is a merge patch that says who has written which field.
func managersPatch(managers []metav1.ManagedFieldsEntry) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{"managedFields": managers}})
}

// dependents finds what belongs to reports and is not a report. With the new uids of the reports the garbage collector
// takes their owners for gone, and deletes them.
func (c *cluster) dependents(ctx context.Context) (found, unread []string, err error) {
	lists, err := discovery.ServerPreferredResources(c.typed.Discovery())
	if partial := (*discovery.ErrGroupDiscoveryFailed)(nil); err != nil && !errors.As(err, &partial) {
		return nil, nil, fmt.Errorf("ask which kinds there are: %w", err)
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, nil, err
		}
		if slices.Contains(groupNames(), gv.Group) {
			continue
		}
		for i := range list.APIResources {
			resource := &list.APIResources[i]
			if !slices.Contains([]string(resource.Verbs), "list") || !slices.Contains([]string(resource.Verbs), "delete") {
				continue
			}
			more, err := c.dependentsOf(ctx, gv.WithResource(resource.Name))
			if err != nil {
				unread = append(unread, resource.Name+"."+gv.Group)
			}
			found = append(found, more...)
		}
	}
	slices.Sort(found)
	return found, unread, nil
}

func (c *cluster) dependentsOf(ctx context.Context, resource schema.GroupVersionResource) (found []string, err error) {
	err = pages(metadataObjects, metav1.ListOptions{}, func(options metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := c.metadata.Resource(resource).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			m := &list.Items[i]
			if j := slices.IndexFunc(m.OwnerReferences, func(o metav1.OwnerReference) bool { return isReport(&o) }); j >= 0 {
				at := place{resource.GroupResource().String(), m.Namespace, m.Name}
				found = append(found, fmt.Sprintf("%s belongs to %s %s", at, m.OwnerReferences[j].Kind, m.OwnerReferences[j].Name))
			}
		}
		return list, nil
	})
	return found, err
}

// printBack prints the plan of the way back.
func (o *options) printBack(ctx context.Context, c *cluster, all []*groupSeen, server *reportsServer) error {
	s := o.session
	fmt.Fprintf(s.Out, "Server: %s\n", server)
	table := tabwriter.NewWriter(s.Out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(table, "GROUP\tREPORTS\tNEXT")
	moves := false
	for _, g := range all {
		switch nextBack(g) {
		case backMove:
			moves = true
			fmt.Fprintf(table, "%s\t%d\tcopy to the CRDs and switch\n", g.group.name, g.returning)
		case backSettle:
			fmt.Fprintf(table, "%s\t\tcompare, remove from the server\n", g.group.name)
		case backNothing:
			fmt.Fprintf(table, "%s\t\tnothing, is not at the server\n", g.group.name)
		}
	}
	if err := table.Flush(); err != nil || !moves {
		return err
	}
	found, unread, err := c.dependents(ctx)
	if err != nil {
		return err
	}
	for i, line := range found {
		if i == shownProblems {
			fmt.Fprintf(s.Out, "  and %d more\n", len(found)-i)
			break
		}
		fmt.Fprintf(s.Out, "%s, which gets a new uid: the garbage collector will delete it.\n", line)
	}
	for _, name := range unread {
		fmt.Fprintf(s.ErrOut, "warning: %s cannot be listed; whether some belong to reports is not known\n", name)
	}
	return nil
}
