// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// TargetScope says which targets Scans may name: each of its rules has to let a Scan pass. The zero value lets all pass.
type TargetScope struct{ rules []targetRule }

// targetRule is the scope of one setting.
type targetRule struct {
	*settingsv1alpha2.TargetScope

	kind            string
	allowed, denied []pattern
}

// NewTargetScope returns the scope of a namespace, of the specs in force; nil for none. A namespace only tightens.
func NewTargetScope(cluster *settingsv1alpha2.ClusterScanSettingSpec, own *settingsv1alpha2.ScanSettingSpec) TargetScope {
	var s TargetScope
	if cluster != nil {
		s.add("ClusterScanSetting", cluster.TargetScope)
	}
	if own != nil {
		s.add("ScanSetting", own.TargetScope)
	}
	return s
}

func (s *TargetScope) add(kind string, of *settingsv1alpha2.TargetScope) {
	if of == nil {
		return
	}
	r := targetRule{TargetScope: of, kind: kind}
	for _, list := range []struct {
		texts []string
		into  *[]pattern
	}{{of.Allowed, &r.allowed}, {of.Denied, &r.denied}} {
		for _, text := range list.texts {
			// What is not valid is not a setting in force. An allowed target that cannot be read allows nothing.
			p, _ := parsePattern(text)
			*list.into = append(*list.into, p)
		}
	}
	s.rules = append(s.rules, r)
}

// Refuses returns why the targets of a Scan are not allowed, and by which rule; "" if they are. Path is the field of the
// Scan's spec.
func (s TargetScope) Refuses(at string, spec *executionv1.ScanSpec) string {
	for i := range s.rules {
		if why := s.rules[i].refuses(at, spec); why != "" {
			return why
		}
	}
	return ""
}

func (r *targetRule) refuses(at string, spec *executionv1.ScanSpec) string {
	if !r.looksAt(spec.ScanType) {
		return ""
	}
	found := 0
	for i, parameter := range expanded(spec.Parameters, spec.Env) {
		if i > 0 && portsFollow(spec.Parameters[i-1]) {
			continue
		}
		for _, t := range targetsOf(parameter) {
			found++
			if why := r.refusesTarget(t); why != "" {
				return fmt.Sprintf("%s.parameters[%d]: %s", at, i, why)
			}
		}
	}
	if found == 0 && len(r.allowed) > 0 {
		return fmt.Sprintf("%s.parameters: no target can be read of them, and only those of %s are allowed: name the target in the parameters, or ask who "+
			"writes the setting to leave ScanType %s out (targetScope.scanTypes)", at, r.field("allowed"), spec.ScanType)
	}
	return ""
}

func (r *targetRule) refusesTarget(t target) string {
	if t.unreadable != "" {
		return fmt.Sprintf("%q %s, so it cannot be held against %s: write the target out", t.text, t.unreadable, r.field(""))
	}
	for i, p := range r.denied {
		if p.overlaps(t) {
			return fmt.Sprintf("target %q is denied by %q (%s): choose another one, or ask who writes the setting", t.text, r.Denied[i], r.field("denied"))
		}
	}
	if len(r.allowed) > 0 && !slices.ContainsFunc(r.allowed, func(p pattern) bool { return p.contains(t) }) {
		return fmt.Sprintf("target %q is none of those that %s allows (%s): choose one of them, or ask who writes the setting. A file is not a target if "+
			"it is written with its folder, as in ./%[1]s", t.text, r.field("allowed"), some(r.Allowed))
	}
	return ""
}

// mostAllowed is how many allowed targets a message names.
const mostAllowed = 8

func some(all []string) string {
	if len(all) <= mostAllowed {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:mostAllowed], ", "), len(all)-mostAllowed)
}

func (r *targetRule) field(name string) string {
	at := "spec.targetScope"
	if name != "" {
		at += "." + name
	}
	return at + " of the " + r.kind
}

func (r *targetRule) looksAt(scanType string) bool {
	return len(r.ScanTypes) == 0 || slices.ContainsFunc(r.ScanTypes, func(glob string) bool {
		fits, err := path.Match(glob, scanType)
		return fits && err == nil
	})
}

// portsFollow reports whether the parameter behind a flag is a list of ports, such as -p T:80,ftp:2121.
func portsFollow(flag string) bool { return flag == "-p" || flag == "--ports" || flag == "--port" }

// expanded are the parameters with the variables of the Scan put in, as Kubernetes does it with a container's command.
func expanded(parameters []string, env []corev1.EnvVar) []string {
	var pairs []string
	for _, v := range env {
		if v.ValueFrom == nil && !strings.Contains(v.Value, "$(") {
			pairs = append(pairs, "$("+v.Name+")", v.Value)
		}
	}
	out, put := make([]string, len(parameters)), strings.NewReplacer(pairs...)
	for i, p := range parameters {
		out[i] = put.Replace(p)
	}
	return out
}

// checkTargetScope returns the patterns that are neither addresses, networks nor names of hosts.
func checkTargetScope(s *settingsv1alpha2.TargetScope, at *field.Path) (errs field.ErrorList) {
	if s == nil {
		return nil
	}
	for name, list := range map[string][]string{"allowed": s.Allowed, "denied": s.Denied} {
		for i, text := range list {
			if _, err := parsePattern(text); err != nil {
				errs = append(errs, field.Invalid(at.Child(name).Index(i), text, err.Error()))
			}
		}
	}
	for i, glob := range s.ScanTypes {
		if _, err := path.Match(glob, ""); err != nil {
			errs = append(errs, field.Invalid(at.Child("scanTypes").Index(i), glob, "must be the name of a ScanType, or a pattern such as nmap*"))
		}
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return errs
}
