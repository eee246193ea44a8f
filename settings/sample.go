// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/apis/text"
)

// allPhases are the phases of a target that names none.
var allPhases = []settingsv1alpha2.Phase{settingsv1alpha2.PhaseScanner, settingsv1alpha2.PhaseParser, settingsv1alpha2.PhaseHook}

// patches tries every patch on samples of the Jobs it will meet: one with the least and one with many of
// the fields that a Job can have, of each phase. A patch that breaks a rule on any of them is refused,
// and so is a patch that changes none.
func (p *Problems) patches(all []settingsv1alpha2.JobPatch, path *field.Path, r rules) {
	for i, patch := range all {
		at := path.Index(i)
		phases := allPhases
		if t := patch.Target; t != nil {
			if t.LabelSelector != nil {
				p.invalid = append(p.invalid, checkSelector(t.LabelSelector, at.Child("target", "labelSelector"))...)
			}
			if len(t.Phases) > 0 {
				phases = t.Phases
			}
			if len(t.Hooks) > 0 {
				if !slices.Contains(phases, settingsv1alpha2.PhaseHook) {
					p.matches = append(p.matches, field.Invalid(at.Child("target", "hooks"), strings.Join(t.Hooks, ", "),
						"matches nothing: only Jobs of phase Hook have a hook, and target.phases leaves it out. Add Hook there, or remove hooks"))
					continue
				}
				phases = []settingsv1alpha2.Phase{settingsv1alpha2.PhaseHook}
			}
		}
		p.try(patch.Patch, phases, at.Child("patch"), r)
	}
}

func (p *Problems) try(text string, phases []settingsv1alpha2.Phase, path *field.Path, r rules) {
	parsed, err := parsePatch(text)
	if err != nil {
		p.note(path, text, err)
		return
	}
	changed := false
	var missing error
	for _, phase := range phases {
		jobs, err := Samples(phase, parsed.containers())
		if err != nil {
			p.note(path, text, err)
			return
		}
		for _, job := range jobs {
			after, err := parsed.apply(job, r)
			if l, ok := errors.AsType[*lineError](err); ok && l.missing {
				missing = err
				continue
			}
			if err != nil {
				p.note(path, text, err)
				return
			}
			changed = changed || !equality.Semantic.DeepEqual(job, after)
		}
	}
	switch {
	case changed:
	case missing != nil:
		p.note(path, text, missing)
	default:
		p.note(path, text, &lineError{line: 1, missing: true, message: fmt.Sprintf(
			"matches nothing: it changes no Job of phase %s; containers are called parser in parser Jobs, hook in hook Jobs, and in scanner Jobs as the ScanType says",
			phaseNames(phases),
		)})
	}
}

func phaseNames(phases []settingsv1alpha2.Phase) string {
	names := make([]string, 0, len(phases))
	for _, p := range phases {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

// maxShown is how many characters of a patch a message repeats.
const maxShown = 41

func (p *Problems) note(path *field.Path, patch string, err error) {
	first, _, more := strings.Cut(strings.TrimSpace(patch), "\n")
	short := text.CutRunes(first, maxShown)
	if more && short == first {
		short += "…"
	}
	problem := field.Invalid(path, short, err.Error())
	if l, ok := errors.AsType[*lineError](err); ok && l.missing {
		p.matches = append(p.matches, problem)
		return
	}
	p.invalid = append(p.invalid, problem)
}

// containers are the names of the containers that a merge patch changes: those of its entries without an
// image.
func (p *parsedPatch) containers() []string {
	if p.merge == nil {
		return nil
	}
	entries, err := p.merge.Pipe(kyaml.Lookup("spec", "template", "spec", "containers"))
	if err != nil || entries == nil || entries.YNode().Kind != kyaml.SequenceNode {
		return nil // apply returns the error
	}
	var names []string
	for _, e := range entries.YNode().Content {
		container := kyaml.NewRNode(e)
		name := container.Field("name")
		if name == nil || container.Field("image") != nil {
			continue
		}
		if called := name.Value.YNode().Value; !slices.Contains([]string{executionv1.ContainerLurker, executionv1.ContainerParser, "hook"}, called) {
			names = append(names, called)
		}
	}
	return names
}

// Containers of the sample of a scanner Job, besides the lurker.
const (
	sampleScanner = "scanner"
	sampleOther   = "other"
)

// samplesOf are the names of the two samples of a phase.
var samplesOf = []string{"least", "much"}

// sampleFiles are Jobs as the operator builds them. A test of the builders keeps them up to date.
//
//go:embed samples/*.yaml
var sampleFiles embed.FS

// readSamples reads each sample once.
var readSamples = sync.OnceValues(func() (map[string]*batchv1.Job, error) {
	all := map[string]*batchv1.Job{}
	for _, phase := range allPhases {
		for _, of := range samplesOf {
			name := SampleFile(phase, of)
			raw, err := sampleFiles.ReadFile(name)
			if err != nil {
				return nil, err
			}
			job := &batchv1.Job{}
			if err := yaml.UnmarshalStrict(raw, job); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			all[name] = job
		}
	}
	return all, nil
})

// SampleFile is the file with a sample of a phase: the one with the least, or the one with many fields that a Job can have.
func SampleFile(phase settingsv1alpha2.Phase, of string) string {
	return "samples/" + strings.ToLower(string(phase)) + "-" + of + ".yaml"
}

// Samples returns two Jobs of a phase, as patches will meet them: one with the least and one with many fields. The containers of
// a scanner Job are named by its ScanType, so they get the names that a patch uses.
func Samples(phase settingsv1alpha2.Phase, containers []string) ([]*batchv1.Job, error) {
	all, err := readSamples()
	if err != nil {
		return nil, fmt.Errorf("read the samples of Jobs: %w", err)
	}
	var jobs []*batchv1.Job
	for _, of := range samplesOf {
		job := all[SampleFile(phase, of)].DeepCopy()
		if phase == settingsv1alpha2.PhaseScanner {
			rename(&job.Spec.Template.Spec, containers)
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}

// rename gives the containers of a scanner Job their names. The lurker waits for the first one.
func rename(pod *corev1.PodSpec, names []string) {
	if len(names) == 0 {
		names = []string{sampleScanner}
	}
	lurker := pod.Containers[len(pod.Containers)-1]
	containers := make([]corev1.Container, 0, len(names)+1)
	for i, name := range names {
		like := sampleScanner
		if i > 0 {
			like = sampleOther
		}
		at := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == like })
		c := pod.Containers[at].DeepCopy()
		c.Name = name
		containers = append(containers, *c)
	}
	if at := slices.Index(lurker.Args, sampleScanner); at >= 0 {
		lurker.Args[at] = names[0]
	}
	containers = append(containers, lurker)
	pod.Containers = containers
}
