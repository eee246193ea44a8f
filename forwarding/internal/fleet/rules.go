// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/scanyard/scanyard/findings/policyreport"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/store"
)

// Rules say into which namespace the Scans of which sender go.
type Rules struct {
	// Group is the group of the reports; empty: the first of policyreport.APIs.
	Group string `json:"group,omitempty"`
	Rules []Rule `json:"rules"`
}

// Rule is one sender. The first rule that fits counts.
type Rule struct {
	// Authority is what the sender has proved itself by; empty: nothing.
	Authority string `json:"authority,omitempty"`
	// Cluster is an ID of a cluster.
	Cluster string `json:"cluster"`
	// Tenant is a namespace of that cluster; * is each of them.
	Tenant string `json:"tenant"`
	// Namespace is where the reports go. {tenant} stands for the tenant.
	Namespace string `json:"namespace"`
}

const anyTenant, tenantMark = "*", "{tenant}"

var namespaceSyntax = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// ParseRules reads a file of rules. The error names what is wrong.
func ParseRules(text []byte) (Rules, error) {
	var r Rules
	if err := yaml.UnmarshalStrict(text, &r); err != nil {
		return r, err
	}
	if _, err := r.api(); err != nil {
		return r, err
	}
	if len(r.Rules) == 0 {
		return r, errors.New("rules is empty: name a cluster, a tenant and a namespace")
	}
	for i, rule := range r.Rules {
		switch {
		case rule.Cluster == "":
			return r, fmt.Errorf("rules[%d].cluster is empty: name the ID of the cluster", i)
		case rule.Tenant == "":
			return r, fmt.Errorf("rules[%d].tenant is empty: name a namespace of the cluster, or * for each", i)
		case rule.Tenant == anyTenant && !strings.Contains(rule.Namespace, tenantMark):
			return r, fmt.Errorf("rules[%d].namespace must hold %s where tenant is *: each tenant has a namespace of its own", i, tenantMark)
		case !namespaceSyntax.MatchString(strings.ReplaceAll(rule.Namespace, tenantMark, "x")):
			return r, fmt.Errorf("rules[%d].namespace %q is not a name of a namespace", i, rule.Namespace)
		}
	}
	return r, nil
}

func (r *Rules) api() (policyreport.API, error) {
	var known []string
	for _, api := range policyreport.APIs() {
		if r.Group == "" || r.Group == api.Group {
			return api, nil
		}
		known = append(known, api.Group)
	}
	return policyreport.API{}, fmt.Errorf("group %q is not known: use one of %s", r.Group, strings.Join(known, ", "))
}

// namespace is where the reports of a stream go; empty: nowhere.
func (r *Rules) namespace(w store.Whole) string {
	for _, rule := range r.Rules {
		if rule.Authority != w.Authority || rule.Cluster != w.Stream.GetClusterId() || rule.Tenant != anyTenant && rule.Tenant != w.Stream.GetTenant() {
			continue
		}
		name := strings.ReplaceAll(rule.Namespace, tenantMark, w.Stream.GetTenant())
		if !namespaceSyntax.MatchString(name) {
			return ""
		}
		return name
	}
	return ""
}
