// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/discovery/internal/scanconfig"
)

// What marks a ScheduledScan of ours.
const (
	// LabelManagedBy and ManagedBy are secureCodeBox's, on the ScheduledScans of every auto-discovery.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "securecodebox-autodiscovery"

	// AnnotationTarget says of which image a ScheduledScan is, and where that was first seen.
	AnnotationTarget = "aws.auto-discovery.scanyard.io/target"
	// AnnotationContainers says in which containers the image runs, in a short form. It is
	// what a new process knows after a restart.
	AnnotationContainers = "aws.auto-discovery.scanyard.io/containers"
	// AnnotationConfig is a digest of the rendered text. It shows changes of the
	// configuration without undoing what people change by hand.
	AnnotationConfig = "aws.auto-discovery.scanyard.io/config"
)

// arguments are what templates see.
type arguments struct {
	Config     shownConfig
	ScanConfig scanconfig.View
	Target     Target
	Image      Image
	ImageID    string
}

// sample is an example of the arguments, by which names that do not exist are found in templates.
func (s *Settings) sample() arguments {
	img := Image{
		Id: "docker.io/library/nginx@sha256:163482fed1f8e7c8558cc476a512b13768a8d2f7a04b8aab407ab02987c42382", Name: "nginx:1.27",
		Digest: "sha256:163482fed1f8e7c8558cc476a512b13768a8d2f7a04b8aab407ab02987c42382", Version: "1.27",
		Registry: "docker.io", Repository: "docker.io/library/nginx", ShortName: "library/nginx",
	}
	return s.arguments(&scanconfig.ScanConfig{}, Target{Id: "arn:aws:ecs:eu-central-1:123456789012:container/shop/0/1", Image: img})
}

func (s *Settings) arguments(c *scanconfig.ScanConfig, t Target) arguments {
	shown := shownConfig{Config: s.Config, Kubernetes: shownKubernetes{KubernetesConfig: s.Kubernetes}}
	for i := range s.Kubernetes.ScanConfigs {
		shown.Kubernetes.ScanConfigs = append(shown.Kubernetes.ScanConfigs, s.Kubernetes.ScanConfigs[i].View())
	}
	return arguments{Config: shown, ScanConfig: c.View(), Target: t, Image: t.Image, ImageID: t.Image.Id}
}

// shownConfig is the configuration as templates see it.
type shownConfig struct {
	Config

	Kubernetes shownKubernetes
}

type shownKubernetes struct {
	KubernetesConfig

	ScanConfigs []scanconfig.View
}

// desired is the ScheduledScan of an image and a scan configuration.
func (s *Settings) desired(t *scanconfig.Template, r *running) (*executionv1.ScheduledScan, error) {
	rendered, err := t.Render(s.arguments(t.Config(), r.target))
	if err != nil {
		return nil, err
	}
	scan := &executionv1.ScheduledScan{
		TypeMeta: metav1.TypeMeta{APIVersion: executionv1.SchemeGroupVersion.String(), Kind: "ScheduledScan"},
		ObjectMeta: metav1.ObjectMeta{
			Name: scanName(r.target.Image, t.Config().Name), Namespace: s.Kubernetes.Namespace,
			Labels: rendered.Labels, Annotations: rendered.Annotations,
		},
		Spec: rendered.Spec,
	}
	if scan.Labels == nil {
		scan.Labels = map[string]string{}
	}
	scan.Labels[LabelManagedBy] = ManagedBy
	if scan.Annotations == nil {
		scan.Annotations = map[string]string{}
	}
	whole, err := json.Marshal(scan)
	if err != nil {
		return nil, err
	}
	target, err := json.Marshal(targetText{Container: r.target.Id, Image: r.target.Image.Name, Digest: r.target.Image.Digest})
	if err != nil {
		return nil, err
	}
	scan.Annotations[AnnotationConfig] = digits(string(whole))[:hashDigits]
	scan.Annotations[AnnotationTarget] = string(target)
	scan.Annotations[AnnotationContainers], err = r.encodeContainers()
	return scan, err
}

// targetText is the value of AnnotationTarget.
type targetText struct {
	Container string `json:"container"`
	Image     string `json:"image"`
	Digest    string `json:"digest,omitempty"`
}

// targetOf reads which image a ScheduledScan is of; false where it is none of ours.
func targetOf(scan *executionv1.ScheduledScan) (Target, bool, error) {
	text, ok := scan.Annotations[AnnotationTarget]
	if !ok || scan.Labels[LabelManagedBy] != ManagedBy {
		return Target{}, false, nil
	}
	var t targetText
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return Target{}, true, fmt.Errorf("annotation %s: %w", AnnotationTarget, err)
	}
	img, err := newImage(t.Image, t.Digest)
	if err != nil {
		return Target{}, true, fmt.Errorf("annotation %s: %w", AnnotationTarget, err)
	}
	return Target{Id: t.Container, Image: img}, true, nil
}

// ledger are the ScheduledScans that exist, as they were last seen.
type ledger map[imageKey]map[string]*executionv1.ScheduledScan

func (l ledger) put(key imageKey, scan *executionv1.ScheduledScan) {
	if l[key] == nil {
		l[key] = map[string]*executionv1.ScheduledScan{}
	}
	l[key][scan.Name] = scan
}

func (l ledger) remove(key imageKey, name string) {
	delete(l[key], name)
	if len(l[key]) == 0 {
		delete(l, key)
	}
}

func (l ledger) count() int {
	n := 0
	for _, scans := range l {
		n += len(scans)
	}
	return n
}

// load adds the ScheduledScans of the cluster: the knowledge of an earlier process. Errors name
// invalid ones; the others count.
func (s *state) load(scans []executionv1.ScheduledScan) (ledger, error) {
	l := ledger{}
	var errs error
	for i := range scans {
		scan := &scans[i]
		target, ours, err := targetOf(scan)
		if !ours {
			continue
		}
		var containers map[string]map[containerKey]uint32
		var more bool
		if err == nil {
			containers, more, err = decodeContainers(scan.Annotations[AnnotationContainers])
		}
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("ScheduledScan %s/%s is left alone: %w", scan.Namespace, scan.Name, err))
			continue
		}
		key := target.Image.key()
		l.put(key, scan)
		for cluster, members := range containers {
			for c, version := range members {
				if version >= s.version(c) {
					s.put(cluster, c, version, target)
				}
			}
		}
		if more {
			s.remembersNotAll(target)
		}
	}
	return l, errs
}

// change is one write.
type change struct {
	// from is nil where the ScheduledScan is created, to is nil where it is deleted.
	from, to *executionv1.ScheduledScan
}

// plan returns the writes that update the ScheduledScans of an image. It is a function of the running
// containers, the configuration and the existing objects. Scan configurations that cannot be
// rendered for the image are reported; their existing objects do not change.
func (s *Settings) plan(r *running, existing map[string]*executionv1.ScheduledScan) ([]change, error) {
	var changes []change
	var errs error
	keep := map[string]bool{}
	if r != nil {
		for _, t := range s.templates {
			name := scanName(r.target.Image, t.Config().Name)
			keep[name] = true
			want, err := s.desired(t, r)
			if err != nil {
				errs = errors.Join(errs, fmt.Errorf("image %s: %w", r.target.Image.Id, err))
				continue
			}
			have := existing[name]
			if have == nil {
				changes = append(changes, change{to: want})
			} else if to := merged(have, want); to != nil {
				changes = append(changes, change{from: have, to: to})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(existing)) {
		if !keep[name] {
			changes = append(changes, change{from: existing[name]})
		}
	}
	return changes, errs
}

// merged is what has to become of a ScheduledScan; nil where it is right. What people
// have changed stays until the configuration changes, and whether it is suspended
// stays for ever.
func merged(have, want *executionv1.ScheduledScan) *executionv1.ScheduledScan {
	same := func(key string) bool { return have.Annotations[key] == want.Annotations[key] }
	if same(AnnotationConfig) {
		if same(AnnotationContainers) && same(AnnotationTarget) {
			return nil
		}
		to := have.DeepCopy()
		to.Annotations[AnnotationContainers] = want.Annotations[AnnotationContainers]
		to.Annotations[AnnotationTarget] = want.Annotations[AnnotationTarget]
		return to
	}
	to := have.DeepCopy()
	to.Labels, to.Annotations, to.Spec = want.Labels, want.Annotations, want.Spec
	to.Spec.Suspend = have.Spec.Suspend
	return to
}
