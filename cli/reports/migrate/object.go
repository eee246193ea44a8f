// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// finalizersAnnotation keeps the finalizers of an object in etcd that were taken off, since they would hold up the
// deletion of the CRD. The object is copied with them.
const finalizersAnnotation = "reports.scanyard.io/finalizers"

// place is where an object is, in one group.
type place struct{ Resource, Namespace, Name string }

// String is the place for people.
func (p place) String() string {
	if p.Namespace == "" {
		return p.Resource + " " + p.Name
	}
	return fmt.Sprintf("%s %s in namespace %s", p.Resource, p.Name, p.Namespace)
}

// copied is an object as it was sent to the server.
type copied struct {
	UID  string `json:"u"`
	Hash string `json:"h"`
	// Deleting is true for an object that waits for its finalizers. When they are taken off in etcd the object is gone
	// there, and must stay at the server.
	Deleting bool `json:"d,omitempty"`
	// version is the resourceVersion that was copied.
	version string
}

// exported makes of an object of a CRD what is sent to the server.
func exported(g *group, stored *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	u := stored.DeepCopy()
	annotations := u.GetAnnotations()
	if kept, there := annotations[finalizersAnnotation]; there {
		var finalizers []string
		if err := json.Unmarshal([]byte(kept), &finalizers); err != nil {
			return nil, fmt.Errorf("annotation %s: %w", finalizersAnnotation, err)
		}
		delete(annotations, finalizersAnnotation)
		if len(annotations) == 0 {
			annotations = nil
		}
		u.SetAnnotations(annotations)
		u.SetFinalizers(finalizers)
	}
	managed := slices.DeleteFunc(u.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return strings.HasPrefix(e.Manager, fieldManager) })
	from := u.GroupVersionKind()
	to := from.GroupKind().WithVersion(g.version)
	u.SetGroupVersionKind(to)
	for i := range managed {
		if managed[i].APIVersion == from.GroupVersion().String() {
			managed[i].APIVersion = to.GroupVersion().String()
		}
	}
	u.SetManagedFields(managed)
	if from.Version == to.Version {
		return u, nil
	}
	if from.Version == "v1alpha1" {
		renameFields(u.Object["results"], map[string]string{"status": "result", "data": "properties"})
	}
	// v1beta1 has these as the superset of openreports.io has them; this group's version does not know them.
	delete(u.Object, "source")
	delete(u.Object, "configuration")
	return u, nil
}

// renameFields gives fields of all objects in a list their later names.
func renameFields(list any, names map[string]string) {
	items, _ := list.([]any)
	for _, item := range items {
		fields, ok := item.(map[string]any)
		if !ok {
			continue
		}
		for before, now := range names {
			if value, there := fields[before]; there {
				delete(fields, before)
				fields[now] = value
			}
		}
	}
}

// withoutFinalizers is a merge patch that takes the finalizers off an object in etcd and notes them there.
func withoutFinalizers(uid string, finalizers []string) ([]byte, error) {
	kept, err := json.Marshal(finalizers)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": uid, "finalizers": nil, "annotations": map[string]string{finalizersAnnotation: string(kept)},
	}})
}

// comparedMetadata are the fields of metadata that a move keeps. managedFields are kept too, but written again by every
// server in its own order.
var comparedMetadata = []string{
	"name", "namespace", "uid", "generation", "creationTimestamp", "deletionTimestamp",
	"labels", "annotations", "ownerReferences", "finalizers",
}

// hashOf is the hash of what must be the same before and after the move. Empty values are as absent ones.
func hashOf(u *unstructured.Unstructured) (string, error) {
	content := maps.Clone(u.Object)
	delete(content, "apiVersion")
	delete(content, "kind")
	metadata := map[string]any{}
	given, _ := u.Object["metadata"].(map[string]any)
	for _, field := range comparedMetadata {
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

// pruned leaves out what is empty: null, "", false, and lists and objects without members. 0 is a count, and stays.
func pruned(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, member := range v {
			if member = pruned(member); member != nil {
				out[key] = member
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		if len(v) == 0 {
			return nil
		}
		out := make([]any, len(v))
		for i := range v {
			out[i] = pruned(v[i])
		}
		return out
	case string:
		if v == "" {
			return nil
		}
	case bool:
		if !v {
			return nil
		}
	}
	return value
}

// oneOf makes the record of an object that is sent.
func oneOf(stored, sent *unstructured.Unstructured) (copied, error) {
	hash, err := hashOf(sent)
	return copied{UID: string(stored.GetUID()), Hash: hash, Deleting: stored.GetDeletionTimestamp() != nil, version: stored.GetResourceVersion()}, err
}
