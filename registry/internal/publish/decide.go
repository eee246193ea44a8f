// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
)

const (
	// MostFindings of a Scan.
	MostFindings = 1_000_000
	// lookAgain is how soon a Scan that runs is looked at again; refusedAgain how soon one that was refused is made again.
	lookAgain    = 15 * time.Second
	refusedAgain = time.Minute
)

// Job is a job of the Registry that has ended with a changed report.
type Job struct {
	Name, UID string
	Ended     time.Time
}

// Scan is one that was made for the Registry.
type Scan struct {
	Name string
	// Active: it has not ended. NoScanType: nobody has brought its ScanType.
	Active, NoScanType bool
}

// Observation is what is decided by.
type Observation struct {
	Now      time.Time
	Registry *registryv1alpha1.Registry
	Jobs     []Job
	Scans    []Scan
	// Published is the condition FindingsPublished; nil: there is none.
	Published *metav1.Condition
	// Last is the job that Published speaks of.
	Last *registryv1alpha1.PublishedFindings
}

// Decision is what is done.
type Decision struct {
	// Job is published; nil: none. Its Scan is made if it holds no more than MostFindings.
	Job *Job
	// Condition is written; nil: it stays as it is. Remove: there is to be none.
	Condition *metav1.Condition
	Remove    bool
	// RequeueAfter is when the Registry is looked at again; 0: a change tells.
	RequeueAfter time.Duration
}

// Decide says what is done about the findings of a Registry.
func Decide(o Observation) Decision {
	if o.Registry.Spec.Findings == nil {
		return Decision{Remove: o.Published != nil || o.Last != nil}
	}
	var d Decision
	for _, s := range o.Scans {
		if s.Active {
			d.RequeueAfter = lookAgain
		}
		if s.NoScanType && o.Published != nil && o.Last != nil && o.Last.Scan == s.Name && o.Published.Reason == registryv1alpha1.ReasonPublished {
			d.Condition = condition(o, metav1.ConditionFalse, registryv1alpha1.ReasonScanTypeNotFound,
				s.Name+" has no ScanType "+o.Registry.Spec.Findings.ScanType+": install the chart registry-findings")
		}
	}
	if d.RequeueAfter > 0 || d.Condition != nil {
		return d
	}
	d.Job = next(o)
	return d
}

// next is the newest job that is not published yet.
func next(o Observation) *Job {
	var newest *Job
	for i := range o.Jobs {
		j := &o.Jobs[i]
		if (newest == nil || j.Ended.After(newest.Ended)) && isNew(o, j) {
			newest = j
		}
	}
	return newest
}

func isNew(o Observation, j *Job) bool {
	// A Scan that is there already, of which the status does not tell, is told of: creating it again changes nothing.
	if o.Published == nil || o.Last == nil {
		return true
	}
	if o.Last.Job != j.UID {
		return !j.Ended.Before(o.Last.Ended.Time) // two may end in the same second
	}
	switch o.Published.Reason {
	case registryv1alpha1.ReasonScanRejected:
		return true
	case registryv1alpha1.ReasonTooManyFindings:
		return o.Published.ObservedGeneration != o.Registry.Generation // what was too much may be less now
	}
	return false
}

// condition is the condition FindingsPublished.
func condition(o Observation, status metav1.ConditionStatus, reason, message string) *metav1.Condition {
	return &metav1.Condition{
		Type: registryv1alpha1.ConditionFindingsPublished, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(o.Now),
		ObservedGeneration: o.Registry.Generation,
	}
}

const (
	nameLength  = 40
	labelLength = 63
	hashDigits  = 10
)

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:hashDigits]
}

// NameOf is the name of the Scan of a job: a controller that dies between two writes makes no second one.
func NameOf(registry, jobUID string) string {
	if len(registry) > nameLength {
		registry = strings.TrimRight(registry[:nameLength], "-.")
	}
	return "registry-" + registry + "-" + hashOf(jobUID)
}

// target is what hooks compare Scans by.
func target(r *registryv1alpha1.Registry, jobUID string) string {
	text := "registry-" + r.Name
	if r.Spec.Findings.Publish == registryv1alpha1.PublishChanged {
		text += "-changed-" + hashOf(jobUID)
	}
	if len(text) <= labelLength {
		return text
	}
	return strings.TrimRight(text[:labelLength-hashDigits-1], "-._") + "-" + hashOf(text)
}

// Build makes the Scan of a job.
func Build(r *registryv1alpha1.Registry, j Job, labels map[string]string) *executionv1.Scan {
	f := r.Spec.Findings
	s := &executionv1.Scan{
		ObjectMeta: metav1.ObjectMeta{
			Name: NameOf(r.Name, j.UID), Namespace: r.Namespace, Labels: map[string]string{executionv1.LabelTarget: target(r, j.UID)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(r, registryv1alpha1.SchemeGroupVersion.WithKind("Registry"))},
		},
		Spec: executionv1.ScanSpec{
			ScanType: f.ScanType, Parameters: []string{"--registry", r.Name, "--job", j.Name, "--min-severity", string(f.MinSeverity)},
			HookSelector: f.HookSelector.DeepCopy(), Priority: f.Priority, TTLSecondsAfterFinished: f.TTLSecondsAfterFinished,
		},
	}
	maps.Copy(s.Labels, labels)
	if f.Publish == registryv1alpha1.PublishChanged {
		s.Spec.Parameters = append(s.Spec.Parameters, "--changed-only")
	}
	if f.ResourceMode != "" {
		s.Spec.ResourceMode = new(executionv1.ResourceMode(f.ResourceMode))
	}
	return s
}

// tooMany is the condition of a job whose findings are more than a Scan holds.
func tooMany(o Observation, j Job, count int64) *metav1.Condition {
	message := fmt.Sprintf("%s was not made: there are %d findings, and a Scan holds %d; raise findings.minSeverity, or set findings.publish: Changed",
		NameOf(o.Registry.Name, j.UID), count, MostFindings)
	return condition(o, metav1.ConditionFalse, registryv1alpha1.ReasonTooManyFindings, message)
}
