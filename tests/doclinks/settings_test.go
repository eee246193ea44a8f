// SPDX-License-Identifier: Apache-2.0

package doclinks

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEverySettingIsDocumented holds docs/configuration.md against the flags that the
// operator binds and the environment variables that its programs read.
func TestEverySettingIsDocumented(t *testing.T) {
	text := read(t, filepath.Join(root, "docs", "configuration.md"))
	flag := regexp.MustCompile(`fs\.\w+Var\(&[\w.]+, "([a-z-]+)"`)
	variable := regexp.MustCompile(`getenv\("([A-Z0-9_]+)"|duration\(getenv, "([A-Z0-9_]+)"|Env\w+ = "([A-Z0-9_]+)"`)
	seen := 0
	for _, file := range []string{"internal/app/options.go", "internal/app/admission.go", "internal/jobs/config.go", "cmd/lurker/main.go"} {
		source := read(t, filepath.Join(root, "operator", file))
		for _, m := range flag.FindAllStringSubmatch(source, -1) {
			seen++
			if !strings.Contains(text, "`--"+m[1]+"`") {
				t.Errorf("docs/configuration.md does not know the flag --%s of %s", m[1], file)
			}
		}
		for _, m := range variable.FindAllStringSubmatch(source, -1) {
			seen++
			name := strings.Join(m[1:], "")
			if !strings.Contains(text, "`"+name+"`") {
				t.Errorf("docs/configuration.md does not know the variable %s of %s", name, file)
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d settings found: does this test still see them?", seen)
	}
}

// TestEveryReasonIsDocumented holds docs/troubleshooting.md and docs/concepts.md against
// the states and reasons that the operator sets.
func TestEveryReasonIsDocumented(t *testing.T) {
	concepts, troubleshooting := read(t, filepath.Join(root, "docs", "concepts.md")), read(t, filepath.Join(root, "docs", "troubleshooting.md"))
	var operator strings.Builder
	for _, file := range files(t, ".go") {
		if strings.Contains(file, "/operator/internal/scan/") && !strings.HasSuffix(file, "_test.go") {
			operator.WriteString(read(t, file))
		}
	}
	constants := regexp.MustCompile(`(?m)^\t((?:Reason|ScanState|Condition)\w+)(?: ScanState)? += "(\w+)"`)
	seen := 0
	types := filepath.Join(root, "apis", "execution", "v1")
	text := read(t, filepath.Join(types, "scan_types.go")) + read(t, filepath.Join(types, "scheduledscan_types.go"))
	for _, m := range constants.FindAllStringSubmatch(text, -1) {
		name, value := m[1], m[2]
		if !regexp.MustCompile(`\b`+name+`\b`).MatchString(operator.String()) || strings.HasPrefix(name, "ScanStateLegacy") {
			continue
		}
		seen++
		if !strings.Contains(concepts, "`"+value+"`") {
			t.Errorf("docs/concepts.md does not know %s (%s)", value, name)
		}
		fine := value == "Running" || value == "Completed" // nothing to do about it
		if strings.HasPrefix(name, "Reason") && !fine && !regexp.MustCompile(`(?m)^### .*\b`+value+`\b`).MatchString(troubleshooting) {
			t.Errorf("docs/troubleshooting.md has no heading for %s", value)
		}
	}
	if seen < 30 {
		t.Errorf("only %d states and reasons found: does this test still see them?", seen)
	}
}
