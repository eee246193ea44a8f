// SPDX-License-Identifier: Apache-2.0

package targets

import "github.com/scanyard/scanyard/discovery/kubernetes/config"

// Annotations that include and exclude; only the value "true" counts.
const (
	// AnnotationEnabled on a namespace, or on an object, has it scanned.
	AnnotationEnabled = "auto-discovery.securecodebox.io/enabled"
	// AnnotationIgnore on an object keeps it from being scanned.
	AnnotationIgnore = "auto-discovery.securecodebox.io/ignore"
)

// Included says whether an object in a namespace is looked at, by the annotations of both.
func Included(mode config.InclusionMode, namespace, object map[string]string) bool {
	_, why := exclusion(mode, namespace, object)
	return why == ""
}

// exclusion is why an object is not looked at; empty where it is.
func exclusion(mode config.InclusionMode, namespace, object map[string]string) (Reason, string) {
	ignored := object[AnnotationIgnore] == "true"
	switch mode {
	case config.EnabledPerResource:
		if object[AnnotationEnabled] != "true" {
			return NotEnabled, `it has no annotation ` + AnnotationEnabled + `: "true"`
		}
		return "", ""
	case config.EnabledPerNamespace:
		if namespace[AnnotationEnabled] != "true" {
			return NotEnabled, `its namespace has no annotation ` + AnnotationEnabled + `: "true"`
		}
	case config.All:
	}
	if ignored {
		return Ignored, `it has the annotation ` + AnnotationIgnore + `: "true"`
	}
	return "", ""
}
