// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/hooks/notification/message"
	"github.com/scanyard/scanyard/hooks/sdk"
)

// TestREADME holds the examples to the code: every type has one, and each is taken as it is written.
func TestREADME(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	env := sdk.Env(func(name string) (string, bool) {
		switch {
		case strings.HasSuffix(name, "_FILE"), strings.HasPrefix(name, "DELIVERY_"), name == "NODE_EXTRA_CA_CERTS":
			return "", false
		case name == "GITHUB_REPOSITORY":
			return "owner/name", true
		case name == "JIRA_PROJECT":
			return "SEC", true
		case name == "SMTP_CONFIG":
			return "smtp://user:password@smtp.example.com:587", true
		}
		return "https://example.com/" + name, true
	})
	shown := map[string]bool{}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		example := block[1]
		if !strings.HasPrefix(example, "- ") {
			continue // the hook's own object
		}
		channels, err := parseChannels(example)
		if err != nil {
			t.Fatalf("%v in\n%s", err, example)
		}
		for _, c := range channels {
			shown[c.Type] = true
			if err := c.prepare(env, &message.Templates{Folder: t.TempDir(), Env: env}, options{}); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
	}
	for _, kind := range types() {
		if !shown[kind] {
			t.Errorf("no example of %s", kind)
		}
	}
	for _, s := range Hook().Settings {
		if !strings.Contains(string(text), s.Name) && !slices.Contains([]string{"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "NODE_EXTRA_CA_CERTS"}, s.Name) {
			t.Errorf("the README does not say what %s is", s.Name)
		}
	}
}
