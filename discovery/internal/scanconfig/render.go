// SPDX-License-Identifier: Apache-2.0

package scanconfig

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// Template is a scanConfig whose templates are parsed.
type Template struct {
	config *ScanConfig
	path   *field.Path
	// parsed holds every text that is a template.
	parsed map[string]*template.Template
}

// Rendered is what a scanConfig makes of a target: all of a ScheduledScan but its name,
// namespace and owner.
type Rendered struct {
	Labels, Annotations map[string]string
	Spec                executionv1.ScheduledScanSpec
}

// RenderError says that a field of a scanConfig cannot be rendered for a target.
type RenderError struct {
	// Field is its path in the configuration.
	Field string
	Err   error
}

// Error names the field.
func (e *RenderError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns what is wrong.
func (e *RenderError) Unwrap() error { return e.Err }

// Compile validates a scanConfig and parses its templates. path is its path in the configuration. With a
// sample of the template arguments, Compile also finds names that the arguments do not have; other errors
// with a sample may not occur with real targets.
func Compile(c *ScanConfig, path *field.Path, sample any) (*Template, field.ErrorList) {
	t := &Template{config: c, path: path, parsed: map[string]*template.Template{}}
	errs := c.validate(path)
	p := &pass{path: path, text: func(at *field.Path, text string) string {
		if t.parsed[text] != nil || !strings.Contains(text, "{{") {
			return text
		}
		parsed, err := parse(text)
		if err != nil {
			errs = append(errs, field.Invalid(at, text, err.Error()))
			return text
		}
		t.parsed[text] = parsed
		if sample != nil {
			if _, err := execute(parsed, sample); err != nil && unknownName.MatchString(err.Error()) {
				errs = append(errs, field.Invalid(at, text, err.Error()))
			}
		}
		return text
	}}
	p.spec(c)
	p.values(path.Child("labels"), c.Labels)
	p.values(path.Child("annotations"), c.Annotations)
	return t, errs
}

// unknownName is the error for a name that is wrong whatever the target is.
var unknownName = regexp.MustCompile(`can't evaluate field \w+ in type|nil data; no entry for key`)

// Config returns the scanConfig.
func (t *Template) Config() *ScanConfig { return t.config }

// Path returns the path of the scanConfig in the configuration.
func (t *Template) Path() *field.Path { return t.path }

// Render fills the templates. The error is a *RenderError.
func (t *Template) Render(args any) (*Rendered, error) {
	var failed error
	p := &pass{path: t.path, text: func(at *field.Path, text string) string {
		parsed := t.parsed[text]
		if parsed == nil || failed != nil {
			return text
		}
		out, err := execute(parsed, args)
		if err != nil {
			failed = &RenderError{Field: at.String(), Err: err}
		}
		return out
	}}
	r := &Rendered{
		Labels:      p.values(t.path.Child("labels"), t.config.Labels),
		Annotations: p.values(t.path.Child("annotations"), t.config.Annotations),
		Spec:        t.config.schedule(),
	}
	r.Spec.ScanSpec = p.spec(t.config)
	if failed != nil {
		return nil, failed
	}
	return r, t.checkLabels(r.Labels)
}

// checkLabels refuses what the API server would refuse, in words that say where it comes from.
func (t *Template) checkLabels(labels map[string]string) error {
	for k, v := range labels {
		if msgs := validation.IsValidLabelValue(v); len(msgs) > 0 {
			return &RenderError{Field: t.path.Child("labels").Key(k).String(), Err: fmt.Errorf(
				"%q cannot be the value of a label (%s); trunc 63, replace or regexReplaceAll make one", v, msgs[0])}
		}
	}
	return nil
}

// schedule is the part of the spec that says when.
func (c *ScanConfig) schedule() executionv1.ScheduledScanSpec {
	s := executionv1.ScheduledScanSpec{
		Schedule: c.Schedule, TimeZone: c.TimeZone, StartingDeadlineSeconds: c.StartingDeadlineSeconds, Windows: c.Windows,
		ConcurrencyPolicy: c.ConcurrencyPolicy, SuccessfulJobsHistoryLimit: c.SuccessfulJobsHistoryLimit,
		FailedJobsHistoryLimit:    c.FailedJobsHistoryLimit,
		RetriggerOnScanTypeChange: c.RetriggerOnScanTypeChange == nil || *c.RetriggerOnScanTypeChange,
	}
	if c.Schedule == "" {
		s.Interval = c.RepeatInterval.Duration.String()
	}
	if c.Jitter.Duration > 0 {
		s.Jitter = c.Jitter.Duration.String()
	}
	return s
}

// pass goes through the templated texts of a scanConfig: once to parse them, and once for
// each target to fill them, so that both see the same fields.
type pass struct {
	path *field.Path
	text func(at *field.Path, text string) string
}

// spec builds the spec of the Scans. It shares nothing with the scanConfig.
func (p *pass) spec(c *ScanConfig) *executionv1.ScanSpec {
	s := (&executionv1.ScanSpec{
		ScanType: c.ScanType, HookSelector: c.HookSelector, Env: c.Env, Volumes: c.Volumes, VolumeMounts: c.VolumeMounts,
		InitContainers: c.InitContainers, NodeSelector: c.NodeSelector, Affinity: c.Affinity, Tolerations: c.Tolerations,
		Cascades: c.Cascades, Resources: c.Resources, TTLSecondsAfterFinished: c.TTLSecondsAfterFinished, Deadlines: c.Deadlines,
		Priority: c.Priority,
	}).DeepCopy()
	if mode := c.ResourceMode; mode != "" {
		s.ResourceMode = &mode
	}
	s.Parameters = p.list(p.path.Child("parameters"), c.Parameters)
	s.HookSelector = p.selector(p.path.Child("hookSelector"), s.HookSelector)
	p.env(p.path.Child("env"), s.Env)
	p.volumes(s.Volumes)
	p.mounts(s.VolumeMounts)
	p.containers(s.InitContainers)
	return s
}

// list drops what renders empty. It is never nil: the contract wants a list.
func (p *pass) list(path *field.Path, texts []string) []string {
	all := make([]string, 0, len(texts))
	for i, text := range texts {
		if out := p.text(path.Index(i), text); out != "" {
			all = append(all, out)
		}
	}
	return all
}

// values drops what renders empty.
func (p *pass) values(path *field.Path, m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	all := make(map[string]string, len(m))
	for k, text := range m {
		if out := p.text(path.Key(k), text); out != "" {
			all[k] = out
		}
	}
	return all
}

func (p *pass) selector(path *field.Path, s *metav1.LabelSelector) *metav1.LabelSelector {
	if s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0 {
		return nil
	}
	s.MatchLabels = p.values(path.Child("matchLabels"), s.MatchLabels)
	for i := range s.MatchExpressions {
		at, e := path.Child("matchExpressions").Index(i), &s.MatchExpressions[i]
		e.Key = p.text(at.Child("key"), e.Key)
		if e.Values = p.list(at.Child("values"), e.Values); len(e.Values) == 0 {
			e.Values = nil
		}
	}
	return s
}

func (p *pass) env(path *field.Path, env []corev1.EnvVar) {
	for i := range env {
		env[i].Value = p.text(path.Index(i).Child("value"), env[i].Value)
	}
}

func (p *pass) volumes(volumes []corev1.Volume) {
	for i := range volumes {
		at, v := p.path.Child("volumes").Index(i), &volumes[i]
		v.Name = p.text(at.Child("name"), v.Name)
		if v.Secret != nil {
			v.Secret.SecretName = p.text(at.Child("secret", "secretName"), v.Secret.SecretName)
		}
		if v.ConfigMap != nil {
			v.ConfigMap.Name = p.text(at.Child("configMap", "name"), v.ConfigMap.Name)
		}
	}
}

func (p *pass) mounts(mounts []corev1.VolumeMount) {
	for i := range mounts {
		at, m := p.path.Child("volumeMounts").Index(i), &mounts[i]
		m.Name = p.text(at.Child("name"), m.Name)
		m.MountPath = p.text(at.Child("mountPath"), m.MountPath)
		m.SubPath = p.text(at.Child("subPath"), m.SubPath)
		m.SubPathExpr = p.text(at.Child("subPathExpr"), m.SubPathExpr)
	}
}

func (p *pass) containers(containers []corev1.Container) {
	for i := range containers {
		at, c := p.path.Child("initContainers").Index(i), &containers[i]
		for j := range c.Command {
			c.Command[j] = p.text(at.Child("command").Index(j), c.Command[j])
		}
		for j := range c.Args {
			c.Args[j] = p.text(at.Child("args").Index(j), c.Args[j])
		}
		p.env(at.Child("env"), c.Env)
	}
}

// IsRenderError says whether an error is about a template and its target, which trying
// again does not help.
func IsRenderError(err error) bool {
	var e *RenderError
	return errors.As(err, &e)
}
