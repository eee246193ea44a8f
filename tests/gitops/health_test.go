// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"os"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

const prefix = "resource.customizations.health."

// object is one as its controller leaves it, of generation 2.
func object(kind, conditions string) string {
	return `{"kind": "` + kind + `", "metadata": {"name": "x", "namespace": "team-a", "generation": 2}, "status": {"observedGeneration": 2, "conditions": [` + conditions + `]}}`
}

func ready(value, reason, message string) string {
	return `{"type": "Ready", "status": "` + value + `", "reason": "` + reason + `", "message": "` + message + `", "observedGeneration": 2}`
}

// cases are objects with what tools must think of them. The operator's tests hold that an Errored Scan, and no other, is Stalled.
var cases = []struct {
	name, kind, object string
	health, message    string
	kstatus            status.Status
}{
	{"new", "Scan", `{"kind": "Scan", "metadata": {"name": "x", "generation": 1}}`, "Progressing", "has not started yet", status.CurrentStatus},
	{"running", "Scan", object("Scan", ready("Unknown", "Running", "The scanner is running.")), "Progressing", "The scanner is running.", status.InProgressStatus},
	{"suspended", "Scan", object("Scan", ready("Unknown", "Suspended", "spec.suspend is true.")), "Suspended", "spec.suspend", status.InProgressStatus},
	{"done", "Scan", object("Scan", ready("True", "Completed", "The Scan is done.")), "Healthy", "The Scan is done.", status.CurrentStatus},
	{
		"errored", "Scan",
		object("Scan", ready("False", "ScanTypeNotFound", "There is no ScanType.")+`, {"type": "Stalled", "status": "True", "reason": "ScanTypeNotFound", "message": "There is no ScanType."}`),
		"Degraded", "There is no ScanType.", status.FailedStatus,
	},
	{"planned", "ScheduledScan", object("ScheduledScan", ready("True", "Scheduled", "Runs are started as planned.")), "Healthy", "as planned", status.CurrentStatus},
	{"misspelt", "ScheduledScan", object("ScheduledScan", ready("False", "ScheduleParseError", "spec.schedule")), "Degraded", "spec.schedule", status.InProgressStatus},
	{
		"changed", "ScheduledScan",
		strings.Replace(object("ScheduledScan", ready("True", "Scheduled", "As planned.")), `"generation": 2`, `"generation": 3`, 1),
		"Progressing", "has not looked at this version", status.InProgressStatus,
	},
	{"refused", "ScanSetting", object("ScanSetting", ready("False", "Invalid", "spec.limits")), "Degraded", "spec.limits", status.InProgressStatus},
	{"in force", "ClusterScanSetting", object("ClusterScanSetting", ready("True", "InForce", "In force.")), "Healthy", "In force.", status.CurrentStatus},
	{"paused", "Registry", object("Registry", ready("False", "Suspended", "spec.suspend is true")), "Suspended", "spec.suspend", status.InProgressStatus},
}

func TestHealth(t *testing.T) {
	scripts := scripts(t)
	tried := map[string]bool{}
	for _, c := range cases {
		t.Run(c.kind+"/"+c.name, func(t *testing.T) {
			name, script := "", ""
			for n, s := range scripts {
				if strings.HasSuffix(n, "_"+c.kind) {
					name, script = n, s
				}
			}
			if script == "" {
				t.Fatalf("docs/gitops/argocd-cm.yaml has no health of kind %s", c.kind)
			}
			tried[name] = true
			object := &unstructured.Unstructured{}
			if err := utiljson.Unmarshal([]byte(c.object), &object.Object); err != nil {
				t.Fatal(err)
			}
			health, message := run(t, script, object.Object)
			if health != c.health || !strings.Contains(message, c.message) {
				t.Errorf("Argo CD takes it for %s %q, must be %s with %q", health, message, c.health, c.message)
			}
			result, err := status.Compute(object)
			if err != nil {
				t.Fatal(err)
			}
			if result.Status != c.kstatus {
				t.Errorf("kstatus takes it for %s (%s), must be %s", result.Status, result.Message, c.kstatus)
			}
		})
	}
	for name := range scripts {
		if !tried[name] {
			t.Errorf("no case tries %s", name)
		}
	}
}

// scripts are the health checks of the documented ConfigMap, by group_Kind.
func scripts(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/gitops/argocd-cm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config corev1.ConfigMap
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for key, script := range config.Data {
		name, found := strings.CutPrefix(key, prefix)
		if !found {
			t.Fatalf("key %s: must begin with %s", key, prefix)
		}
		out[name] = script
	}
	return out
}

// run runs a script as Argo CD does: the object in the variable obj, the health as what is returned, no libraries but the safe ones.
func run(t *testing.T, script string, object map[string]any) (health, message string) {
	t.Helper()
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := l.CallByParam(lua.P{Fn: l.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			t.Fatal(err)
		}
	}
	l.SetGlobal("obj", value(l, object))
	if err := l.DoString(script); err != nil {
		t.Fatal(err)
	}
	table, ok := l.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the script returns %s, must return a table", l.Get(-1).Type())
	}
	return table.RawGetString("status").String(), table.RawGetString("message").String()
}

// value is a decoded JSON value in Lua.
func value(l *lua.LState, in any) lua.LValue {
	switch in := in.(type) {
	case map[string]any:
		table := l.NewTable()
		for key, v := range in {
			table.RawSetString(key, value(l, v))
		}
		return table
	case []any:
		table := l.NewTable()
		for _, v := range in {
			table.Append(value(l, v))
		}
		return table
	case string:
		return lua.LString(in)
	case int64:
		return lua.LNumber(in)
	case bool:
		return lua.LBool(in)
	default:
		return lua.LNil
	}
}
