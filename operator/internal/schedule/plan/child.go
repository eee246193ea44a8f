// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// hashDigits is how many digits of a hash distinguish names.
const hashDigits = 10

// childName is the name of the Scan of a run: the name of the ScheduledScan and the Unix time for which
// the run is planned, as in secureCodeBox. Long names are cut, and get a hash of the whole name.
func childName(scheduled string, planned time.Time) string {
	return fit(scheduled, "-"+strconv.FormatInt(planned.Unix(), 10))
}

// childNameOf is the name to use where the usual one belongs to another object, such as a Scan of an
// earlier ScheduledScan of the same name.
func childNameOf(scheduled string, uid types.UID, planned time.Time) string {
	return fit(scheduled, "-"+strconv.FormatInt(planned.Unix(), 10)+"-"+hash(string(uid)))
}

func fit(name, suffix string) string {
	if room := validation.DNS1123SubdomainMaxLength - len(suffix); len(name) > room {
		cut := name[:room-hashDigits-1]
		name = strings.TrimRight(cut, "-.") + "-" + hash(name)
	}
	return name + suffix
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:hashDigits]
}

// newChild builds the Scan of a run.
func newChild(s *executionv1.ScheduledScan, name string, planned time.Time) *executionv1.Scan {
	annotations := ofContract(s.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[executionv1.AnnotationScheduledFor] = planned.UTC().Format(time.RFC3339)
	return &executionv1.Scan{
		TypeMeta: metav1.TypeMeta{APIVersion: executionv1.SchemeGroupVersion.String(), Kind: "Scan"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: s.Namespace, Labels: maps.Clone(s.Labels), Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: executionv1.SchemeGroupVersion.String(), Kind: "ScheduledScan", Name: s.Name, UID: s.UID,
				Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: *s.Spec.ScanSpec.DeepCopy(),
	}
}
