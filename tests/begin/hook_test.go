// SPDX-License-Identifier: Apache-2.0

package begin

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNewHook begins one beside the others, in copies of the two folders that it touches: it compiles, is registered with a
// valid example, and its test fails until the hook is written. An overlay puts the new files into the module.
func TestNewHook(t *testing.T) {
	for _, kind := range []string{readOnly, readAndWrite} {
		t.Run(kind, func(t *testing.T) {
			root, hooks := t.TempDir(), "../../hooks"
			copyFile(t, filepath.Join(hooks, "cmd/hook/main.go"), filepath.Join(root, "hooks/cmd/hook/main.go"))
			for _, file := range []string{"values.yaml", "Chart.lock"} {
				copyFile(t, filepath.Join(hooks, "../charts/update-field", file), filepath.Join(root, "charts/update-field", file))
			}
			if err := Hook(root, "my-hook", kind, quiet); err != nil {
				t.Fatal(err)
			}
			for file, wants := range map[string][]string{
				"hooks/cmd/hook/main.go":             {"\n\tgenericwebhook.Hook(),\n\tmyhook.Hook(),\n\tnotification.Hook(),\n", "hooks/genericwebhook\"\n\t\"github.com/scanyard/scanyard/hooks/myhook\"\n"},
				"hooks/myhook/example.yaml":          {"  type: " + kind + "\n", "value: my-hook\n"},
				"charts/my-hook/values.yaml":         {"# Values of the my-hook chart.\n\n# -- For Scans of all namespaces", "repository: docker.io/scanyard/hook\n"},
				"charts/my-hook/Chart.lock":          {"scanyard-lib"},
				"charts/my-hook/templates/hook.yaml": {`"hook" "my-hook" "type" "` + kind + `"`},
			} {
				text, err := os.ReadFile(filepath.Join(root, file))
				for _, want := range wants {
					if err != nil || !strings.Contains(string(text), want) || strings.HasPrefix(file, "charts") && strings.Contains(string(text), "update-field") {
						t.Errorf("%s has no %q, or something of its model: %v\n%s", file, want, err, text)
					}
				}
			}
			if err := Hook(root, "my-hook", kind, quiet); err == nil || !strings.Contains(err.Error(), "exists already") {
				t.Errorf("a second time: %v", err)
			}
			compiles(t, root, hooks)
		})
	}
}

// compiles has the compiler see the files of a new hook as if they were in the module.
func compiles(t *testing.T, root, hooks string) {
	t.Helper()
	module, err := filepath.Abs(hooks)
	if err != nil {
		t.Fatal(err)
	}
	var pairs []string
	for _, file := range []string{"myhook/doc.go", "myhook/hook.go", "myhook/hook_test.go", "cmd/hook/main.go"} {
		pairs = append(pairs, `"`+filepath.Join(module, file)+`": "`+filepath.Join(root, "hooks", file)+`"`)
	}
	overlay := filepath.Join(root, "overlay.json")
	if err := os.WriteFile(overlay, []byte(`{"Replace": {`+strings.Join(pairs, ", ")+`}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = module, append(os.Environ(), "GOWORK=off")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	// This compiles, and does not link the program that holds all hooks.
	if out, err := run("list", "-export", "-f", "{{.Name}}", "-overlay", overlay, "./cmd/hook", "./myhook"); err != nil {
		t.Errorf("go list -export: %v\n%s", err, out)
	}
	tests := filepath.Join(root, "myhook.test")
	if out, err := run("test", "-c", "-vet=off", "-overlay", overlay, "-o", tests, "./myhook"); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), tests).CombinedOutput(); err == nil || !strings.Contains(string(out), "the hook my-hook is not written yet") {
		t.Errorf("the test must fail until the hook is written: %v\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(root, "hooks", "myhook", "*.go"))
	if err != nil || len(files) != 3 {
		t.Fatalf("Go files %q, %v", files, err)
	}
	if out, err := exec.CommandContext(t.Context(), "gofmt", append([]string{"-l"}, files...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("gofmt: %v\n%s", err, out)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o750)
	}
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestNamesOfHooks(t *testing.T) {
	for _, bad := range []string{"", "My", "my_hook", "-x", "x-", "a--b", "1x", "../x", strings.Repeat("a", 41), "type", "main", "sdk", "cmd"} {
		if err := Hook(t.TempDir(), bad, "", quiet); err == nil || !strings.Contains(err.Error(), "NAME=") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := Hook(t.TempDir(), "x", "Writes", quiet); err == nil || !strings.Contains(err.Error(), "TYPE") {
		t.Error(err)
	}
}

// TestTakenBack: what goes wrong at the end leaves nothing behind.
func TestTakenBack(t *testing.T) {
	root := t.TempDir()
	for _, file := range []string{"values.yaml", "Chart.lock"} {
		copyFile(t, filepath.Join("../../charts/update-field", file), filepath.Join(root, "charts/update-field", file))
	}
	if err := Hook(root, "my-hook", "", quiet); err == nil || !strings.Contains(err.Error(), "main.go") {
		t.Fatalf("there is no list of hooks: %v", err)
	}
	for _, dir := range []string{"hooks/myhook", "charts/my-hook"} {
		if _, err := os.Stat(filepath.Join(root, dir)); err == nil {
			t.Errorf("%s is left behind", dir)
		}
	}
}
