// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/kustomize/api/filters/patchjson6902"
	"sigs.k8s.io/kustomize/api/filters/patchstrategicmerge"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/apis/strictyaml"
)

// JobAttributes is what targets of patches select a Job by.
type JobAttributes struct {
	Phase settingsv1alpha2.Phase
	// ScanType is spec.scanType of the Scan, Hook the name of the hook of a hook Job.
	ScanType, Hook string
	// Labels are the labels of the Scan.
	Labels map[string]string
}

// PatchError says that a patch cannot be applied to a Job.
type PatchError struct {
	// Origin is the entry of the settings.
	Origin string
	Err    error
}

// Error names the entry, the mistake and the remedy.
func (e *PatchError) Error() string { return e.Origin + ": " + e.Err.Error() }

// Unwrap returns the mistake.
func (e *PatchError) Unwrap() error { return e.Err }

// Differs reports whether a patch applies to Jobs of one kind and not to those of the other.
func (e *Effective) Differs(a, b JobAttributes) bool {
	return slices.ContainsFunc(e.Patches, func(p Patch) bool { return p.selects(a) != p.selects(b) })
}

// Patch returns a Job with all patches that apply to it; the given Job does not change. The only error
// is a PatchError.
func (e *Effective) Patch(job *batchv1.Job, t JobAttributes) (*batchv1.Job, error) {
	for i := range e.Patches {
		p := &e.Patches[i]
		if !p.selects(t) {
			continue
		}
		parsed, err := parsePatch(p.Patch)
		if err == nil {
			job, err = parsed.apply(job, rules{tenant: p.Tenant, allowed: e.Allowed})
		}
		if err != nil {
			return nil, &PatchError{p.Origin, err}
		}
	}
	return job, nil
}

// selects reports whether a patch applies to a Job.
func (p *Patch) selects(t JobAttributes) bool {
	target := p.Target
	if target == nil {
		return true
	}
	fits := func(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	return (len(target.Phases) == 0 || slices.Contains(target.Phases, t.Phase)) &&
		fits(target.ScanTypes, t.ScanType) && fits(target.Hooks, t.Hook) && p.selector.Matches(labels.Set(t.Labels))
}

// lineError is a mistake in a line of a patch.
type lineError struct {
	line    int
	message string
	// missing says that the patch is valid but finds nothing to change.
	missing bool
}

func (e *lineError) Error() string {
	if e.line == 0 {
		return e.message
	}
	return fmt.Sprintf("line %d: %s", e.line, e.message)
}

// parsedPatch is the text of a patch, read.
type parsedPatch struct {
	// file has the line numbers.
	file *strictyaml.File
	// merge is a strategic merge patch; nil for operations.
	merge      *kyaml.RNode
	operations []operation
}

// operation is an operation of JSON 6902.
type operation struct {
	line int
	path []string
	// text is the patch with this operation alone.
	text string
}

// parsePatch reads the text of a patch. Errors are lineErrors where a line is known.
func parsePatch(text string) (*parsedPatch, error) {
	file, err := strictyaml.Parse("patch", []byte(text))
	if err != nil {
		return nil, mistakeIn(err)
	}
	switch root := file.Root(); root.Kind {
	case kyaml.MappingNode:
		node := kyaml.NewRNode(root)
		if err := checkMerge(file, node); err != nil {
			return nil, err
		}
		return &parsedPatch{file: file, merge: node}, nil
	case kyaml.SequenceNode:
		p := &parsedPatch{file: file}
		for _, element := range root.Content {
			op, err := readOperation(element)
			if err != nil {
				return nil, err
			}
			p.operations = append(p.operations, op)
		}
		if len(p.operations) == 0 {
			return nil, &lineError{line: 1, message: "holds no operation", missing: true}
		}
		return p, nil
	default:
		return nil, &lineError{line: 1, message: "is neither a part of a Job (a strategic merge patch) nor a list of JSON 6902 operations"}
	}
}

// mistakeIn returns the first mistake that reading a patch has found.
func mistakeIn(err error) error {
	refused, ok := errors.AsType[*strictyaml.Error](err)
	if !ok || len(refused.Problems) == 0 {
		return err
	}
	first := refused.Problems[0]
	mistake := &lineError{line: max(first.Line, 1), message: first.Message}
	switch {
	case first.Unknown:
		mistake.message = (&unknownFieldError{first.Field}).Error()
	case first.Field != "":
		mistake.message = first.Field + ": " + first.Message
	}
	return mistake
}

// checkMerge refuses a strategic merge patch that is for another kind, or empty.
func checkMerge(file *strictyaml.File, node *kyaml.RNode) error {
	for key, want := range map[string]string{"apiVersion": "batch/v1", "kind": "Job"} {
		if f := node.Field(key); f != nil && f.Value.YNode().Value != want {
			return &lineError{
				line:    f.Key.YNode().Line,
				message: fmt.Sprintf("%s is %q: patches are for Jobs (apiVersion batch/v1, kind Job); leave it out", key, f.Value.YNode().Value),
			}
		}
	}
	if node.Field("metadata") == nil && node.Field("spec") == nil {
		return &lineError{line: 1, message: "has neither metadata nor spec of a Job: pods are patched below spec.template", missing: true}
	}
	// kustomize would silently drop some values of a wrong type. Keys that begin with a dollar are directives for the merge,
	// such as $patch: delete.
	if err := file.Decode(&batchv1.Job{}, func(key string) bool { return strings.HasPrefix(key, "$") }); err != nil {
		return mistakeIn(err)
	}
	return nil
}

// knownOps are the operations of JSON 6902.
var knownOps = []string{"add", "remove", "replace", "move", "copy", "test"}

func readOperation(element *kyaml.Node) (operation, error) {
	op := operation{line: element.Line}
	refuse := func(format string, args ...any) (operation, error) {
		return op, &lineError{line: element.Line, message: fmt.Sprintf(format, args...)}
	}
	raw, err := kyaml.NewRNode(element).MarshalJSON()
	if err != nil || element.Kind != kyaml.MappingNode {
		return refuse("is not an operation of JSON 6902: write {op: …, path: …, value: …}")
	}
	var fields struct {
		Op    string          `json:"op"`
		Path  *string         `json:"path"`
		From  *string         `json:"from"`
		Value json.RawMessage `json:"value"`
	}
	unknown, err := sigsjson.UnmarshalStrict(raw, &fields)
	switch {
	case err != nil:
		return refuse("is not an operation of JSON 6902: %v", err)
	case len(unknown) > 0:
		return refuse("%v: an operation has op, path, value and from", unknown[0])
	case !slices.Contains(knownOps, fields.Op):
		return refuse("op %q is not one of %s", fields.Op, strings.Join(knownOps, ", "))
	case fields.Path == nil || !strings.HasPrefix(*fields.Path, "/"):
		return refuse("path is missing or does not begin with a slash, such as /spec/template/spec/nodeSelector")
	case (fields.Op == "move" || fields.Op == "copy") != (fields.From != nil):
		return refuse("from belongs to move and copy, which need it")
	case slices.Contains([]string{"add", "replace", "test"}, fields.Op) && fields.Value == nil:
		return refuse("%s needs a value", fields.Op)
	}
	op.text = "[" + string(raw) + "]"
	for part := range strings.SplitSeq((*fields.Path)[1:], "/") {
		op.path = append(op.path, strings.NewReplacer("~1", "/", "~0", "~").Replace(part))
	}
	return op, nil
}

// apply returns the patched Job. Every error is a lineError.
func (p *parsedPatch) apply(job *batchv1.Job, r rules) (*batchv1.Job, error) {
	if p.merge != nil {
		return p.applyMerge(job, r)
	}
	raw, err := rawJob(job)
	if err != nil {
		return nil, err
	}
	for _, op := range p.operations {
		// The text is handed on, not the decoded Job: a decoded Job has no empty lists, which the next
		// operation may fill.
		next, after, err := filter(raw, func(n []*kyaml.RNode) ([]*kyaml.RNode, error) {
			return patchjson6902.Filter{Patch: op.text}.Filter(n)
		})
		if err != nil {
			return nil, op.mistake(err)
		}
		after.TypeMeta = job.TypeMeta
		keepResult(job, after)
		if err := r.guard(job, after); err != nil {
			return nil, &lineError{line: op.line, message: err.Error()}
		}
		raw, job = next, after
	}
	return job, nil
}

// mistake returns why an operation cannot be applied.
func (op *operation) mistake(err error) error {
	if _, ok := errors.AsType[*unknownFieldError](err); ok {
		return &lineError{line: op.line, message: err.Error()}
	}
	if _, ok := errors.AsType[*wrongTypeError](err); ok {
		return &lineError{line: op.line, message: err.Error()}
	}
	return &lineError{op.line, fmt.Sprintf("%s: %s", "/"+strings.Join(op.path, "/"), finds(err)), true}
}

// finds returns the message that an operation does not fit a Job.
func finds(err error) string {
	return fmt.Sprintf("there is nothing to change in this Job (%v): narrow the target, or write a strategic merge patch, which makes what is not there", err)
}

func (p *parsedPatch) applyMerge(job *batchv1.Job, r rules) (*batchv1.Job, error) {
	raw, err := rawJob(job)
	if err != nil {
		return nil, err
	}
	patch := p.merge.Copy()
	_, after, err := filter(raw, func(n []*kyaml.RNode) ([]*kyaml.RNode, error) {
		return patchstrategicmerge.Filter{Patch: patch}.Filter(n)
	})
	if err != nil {
		return nil, &lineError{line: 1, message: err.Error()}
	}
	after.TypeMeta = job.TypeMeta
	tidy(job, after)
	keepResult(job, after)
	if err := r.guard(job, after); err != nil {
		line := 1
		if v, ok := errors.AsType[*violation](err); ok {
			line = max(p.file.LineOf(v.path...), 1)
		}
		return nil, &lineError{line: line, message: err.Error()}
	}
	return after, nil
}

// unknownFieldError says that a Job has no such field.
type unknownFieldError struct{ field string }

func (e *unknownFieldError) Error() string {
	return fmt.Sprintf("a Job has no field %s: correct its name or its place", e.field)
}

var errDeleted = errors.New("the patch deletes the Job: remove $patch: delete")

// wrongTypeError says that a value is not of the type of its field.
type wrongTypeError struct{ err error }

func (e *wrongTypeError) Error() string {
	return fmt.Sprintf("a value is not of the type of its field: %v", e.err)
}

// rawJob is a Job as JSON.
func rawJob(job *batchv1.Job) ([]byte, error) {
	whole := job.DeepCopy()
	whole.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
	return json.Marshal(whole)
}

// filter runs a Job through a filter of kustomize and decodes the output strictly.
func filter(before []byte, run func([]*kyaml.RNode) ([]*kyaml.RNode, error)) (raw []byte, after *batchv1.Job, err error) {
	node, err := kyaml.ConvertJSONToYamlNode(string(before))
	if err != nil {
		return nil, nil, err
	}
	out, err := run([]*kyaml.RNode{node})
	if err != nil {
		return nil, nil, err
	}
	if len(out) != 1 {
		return nil, nil, errDeleted
	}
	if raw, err = out[0].MarshalJSON(); err != nil {
		return nil, nil, err
	}
	after = &batchv1.Job{}
	strict, err := sigsjson.UnmarshalStrict(raw, after)
	if err != nil {
		return nil, nil, &wrongTypeError{err}
	}
	if len(strict) > 0 {
		return nil, nil, unknownField(strict[0])
	}
	return raw, after, nil
}

// unknownField reads the path out of a strict error such as: unknown field "spec.a[0].b".
func unknownField(err error) error {
	_, quoted, _ := strings.Cut(err.Error(), `"`)
	text, _, found := strings.Cut(quoted, `"`)
	if !found {
		return err
	}
	return &unknownFieldError{text}
}

// tidy restores the order of containers, with new ones behind the old ones and the lurker last, since a
// merge puts new elements first. A new container without an image is an entry for a container that this
// Job does not have: it is left out.
func tidy(before, after *batchv1.Job) {
	b, a := &before.Spec.Template.Spec, &after.Spec.Template.Spec
	a.InitContainers = ordered(b.InitContainers, a.InitContainers)
	a.Containers = ordered(b.Containers, a.Containers)
}

func ordered(before, after []corev1.Container) []corev1.Container {
	place := func(name string) int {
		i := slices.IndexFunc(before, func(c corev1.Container) bool { return c.Name == name })
		switch {
		case i < 0:
			return len(before)
		case name == executionv1.ContainerLurker:
			return len(before) + 1
		}
		return i
	}
	after = slices.DeleteFunc(after, func(c corev1.Container) bool { return c.Image == "" && place(c.Name) == len(before) })
	slices.SortStableFunc(after, func(x, y corev1.Container) int { return place(x.Name) - place(y.Name) })
	return after
}

// keepResult restores on a patched Job the operator's annotations about its phases and the raw result, if the patch has removed it with all
// other annotations: patches that replace the annotations as a whole are older than these annotations.
func keepResult(before, after *batchv1.Job) {
	for _, key := range []string{
		executionv1.AnnotationRawResultFile, executionv1.AnnotationRawResultType, executionv1.AnnotationHooks, executionv1.AnnotationPhases,
	} {
		noted, is := before.Annotations[key]
		if _, has := after.Annotations[key]; !is || has {
			continue
		}
		if after.Annotations == nil {
			after.Annotations = map[string]string{}
		}
		after.Annotations[key] = noted
	}
}
