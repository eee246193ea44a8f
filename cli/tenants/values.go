// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/settings"
)

// Value is one setting in force.
type Value struct {
	// Name is the name of the field.
	Name string `json:"name"`
	// Value is the value of the field.
	Value string `json:"value"`
	// From is where the value was set: cluster or namespace.
	From string `json:"from"`
}

// Values are the settings in force that were set: none without settings, then with the cluster's
// settings, then with those of the namespace. The origin of a value is the step in which the value
// changes.
func Values(none, cluster, both *settings.Effective) []Value {
	var out []Value
	before, with, all := flatten(none), flatten(cluster), flatten(both)
	for _, name := range sortedNames(all) {
		switch value := all[name]; {
		case value != with[name]:
			out = append(out, Value{name, value, "namespace"})
		case value != before[name]:
			out = append(out, Value{name, value, "cluster"})
		}
	}
	return out
}

// sortedNames sorts by name, except that limits and queue come first.
func sortedNames(m map[string]string) []string {
	rank := func(name string) int {
		for i, prefix := range []string{"limits.", "cluster.limits.", "weight", "queue.", "ttl.", "deadlines.", "storage."} {
			if strings.HasPrefix(name, prefix) {
				return i
			}
		}
		return len(m)
	}
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
}

// flatten names every setting that has a value.
func flatten(e *settings.Effective) map[string]string {
	out := map[string]string{}
	put := func(name, value string) {
		if value != "" {
			out[name] = value
		}
	}
	limits := func(prefix string, l settings.Limits) {
		put(prefix+"maxRunning", number(l.MaxRunning))
		for name, n := range l.ScanTypes {
			put(prefix+"scanTypes["+name+"]", number(&n))
		}
		for name, n := range l.Targets {
			put(prefix+"targets["+name+"]", number(&n))
		}
	}
	limits("limits.", e.Namespace)
	limits("cluster.limits.", e.Cluster)
	put("weight", strconv.Itoa(int(e.Weight)))
	put("queue.order", string(e.Order))
	put("queue.maxPriority", number(e.MaxPriority))
	put("ttl.default", seconds(e.TTL.Default))
	put("ttl.max", seconds(e.TTL.Max))
	for name, d := range map[string]settings.Deadline{
		"start": e.Deadlines.Start, "scanner": e.Deadlines.Scanner, "parser": e.Deadlines.Parser, "hook": e.Deadlines.Hook,
	} {
		if d.Max > 0 {
			put("deadlines."+name, "at most "+d.Max.String())
		}
	}
	put("schedules.minInterval", e.Schedules.MinInterval.String())
	put("schedules.maxHistory", strconv.Itoa(int(e.Schedules.MaxHistory)))
	put("storage.bucket", e.Storage.Bucket)
	put("storage.prefix", e.Storage.Prefix)
	put("storage.credentialsSecret", e.Storage.CredentialsSecret)
	put("storage.linksInStatus", strconv.FormatBool(e.StatusLinks))
	put("storage.buckets", strings.Join(e.Buckets, ", "))
	flattenJobs(e, put)
	return out
}

func flattenJobs(e *settings.Effective, put func(name, value string)) {
	for phase, d := range e.Phases {
		put("phases."+strings.ToLower(string(phase)), compact(d))
	}
	put("jobs.imagePullSecrets", strings.Join(e.Jobs.PullSecrets, ", "))
	names := make([]string, 0, len(e.Jobs.Env))
	for _, v := range e.Jobs.Env {
		names = append(names, v.Name) // a value may be secret
	}
	put("jobs.env", strings.Join(names, ", "))
	if e.Jobs.Proxy != nil {
		put("jobs.proxy", "set")
	}
	if e.Jobs.CACertificate != nil {
		put("jobs.caCertificate", compact(e.Jobs.CACertificate))
	}
	for i := range e.Patches {
		p := &e.Patches[i]
		put("patch "+p.Origin, "for "+target(p.Target))
	}
}

// target says which Jobs a patch applies to.
func target(t *settingsv1alpha2.PatchTarget) string {
	if t == nil {
		return "all Jobs"
	}
	if text := compact(t); text != "" {
		return text
	}
	return "all Jobs"
}

// compact returns a value in one line; empty for a value without content.
func compact(v any) string {
	b, err := json.Marshal(v)
	if err != nil || string(b) == "{}" || string(b) == "null" {
		return ""
	}
	return string(b)
}

func number(n *int32) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(int(*n))
}

func seconds(n *int32) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(time.Duration(*n) * time.Second)
}
