// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// violation is what a rule says of an object: a message and details, as results of Open Policy Agent have them.
type violation struct {
	Kind, Constraint, Message string
	Details                   map[string]any
}

type pod struct {
	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Containers []struct {
			Name            string `json:"name"`
			Image           string `json:"image"`
			SecurityContext struct {
				Privileged bool `json:"privileged"`
			} `json:"securityContext"`
		} `json:"containers"`
	} `json:"spec"`
}

// violations applies the rules to a pod; other kinds have none.
func violations(kind string, object json.RawMessage) []violation {
	if kind != "Pod" {
		return nil
	}
	var p pod
	if err := json.Unmarshal(object, &p); err != nil {
		return []violation{{Kind: "Pod", Constraint: "readable", Message: "the pod cannot be read: " + err.Error()}}
	}
	var all []violation
	add := func(kind, constraint, message string, details map[string]any) {
		all = append(all, violation{Kind: kind, Constraint: constraint, Message: message, Details: details})
	}
	if p.Metadata.Labels["owner"] == "" {
		add("K8sRequiredLabels", "pods-have-an-owner", `you must provide the label "owner"`, map[string]any{"missing_labels": []string{"owner"}})
	}
	for _, c := range p.Spec.Containers {
		if c.SecurityContext.Privileged {
			add("K8sPSPPrivilegedContainer", "no-privileged", fmt.Sprintf("container %s must not be privileged", c.Name), map[string]any{"container": c.Name})
		}
		if !hasVersion(c.Image) {
			details := map[string]any{"container": c.Name, "image": c.Image}
			add("K8sAllowedTags", "no-latest", fmt.Sprintf("container %s must name a version of its image", c.Name), details)
		}
	}
	return all
}

// hasVersion tells whether an image has a digest, or a tag that is not latest.
func hasVersion(image string) bool {
	name := image[strings.LastIndex(image, "/")+1:]
	return strings.Contains(name, "@sha256:") || strings.Contains(name, ":") && !strings.HasSuffix(name, ":latest")
}
