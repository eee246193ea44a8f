// SPDX-License-Identifier: Apache-2.0

package platform_test

import (
	"testing"

	"github.com/scanyard/scanyard/registry/internal/platform"
)

func TestCanonical(t *testing.T) {
	for text, want := range map[string]string{
		"linux/amd64": "linux/amd64", "Linux/X86_64": "linux/amd64", "linux/x86-64/v1": "linux/amd64", "linux/amd64/2": "linux/amd64/v2",
		"linux/aarch64": "linux/arm64", "linux/arm64/v8": "linux/arm64", "linux/arm64/8": "linux/arm64", "linux/arm64/v9": "linux/arm64/v9",
		"linux/arm": "linux/arm/v7", "linux/arm/5": "linux/arm/v5", "linux/armhf": "linux/arm/v7", "linux/armel": "linux/arm/v6",
		"linux/i386": "linux/386", "linux/i586": "linux/386", "linux/i686": "linux/386", "macOS/arm64": "darwin/arm64",
		"windows/amd64:10.0.17763.1": "windows/amd64:10.0.17763.1", "Windows/AMD64:10.0-LTSC": "windows/amd64:10.0-ltsc", "linux/mips64le": "linux/mips64le", "linux/ppc64le/power9": "linux/ppc64le/power9",
		"unknown/unknown": "unknown/unknown", "linux": "linux",
	} {
		if got := platform.Parse(text).Canonical(); got.String() != want || got.Canonical() != got {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestFilter(t *testing.T) {
	for _, test := range []struct {
		filter, platform string
		want             bool
	}{
		{"linux/amd64", "linux/amd64", true},
		{"linux/amd64", "linux/amd64/v3", true},
		{"linux/amd64/v1", "linux/amd64", true},
		{"linux/amd64/v1", "linux/amd64/v3", false},
		{"linux/x86_64", "linux/amd64", true},
		{"linux/arm", "linux/arm/v5", true},
		{"linux/arm/v7", "linux/arm", true},
		{"linux/arm/7", "linux/armhf", true},
		{"linux/armhf", "linux/arm/v6", false},
		{"linux/armel", "linux/arm/v6", true},
		{"linux/arm64/v8", "linux/arm64", true},
		{"linux/arm64/v8", "linux/arm64/v9", false},
		{"linux/*", "linux/riscv64", true},
		{"linux/*/v8", "linux/arm64", true},
		{"linux/*/v7", "linux/arm", true},
		{"*/amd64", "windows/amd64:10.0.1", true},
		{"*/*", "linux/s390x", true},
		{"MACOS/arm64", "darwin/arm64", true},
		{"linux/amd64", "windows/amd64", false},
	} {
		filter, err := platform.NewFilter([]string{"plan9/386", test.filter})
		if err != nil {
			t.Fatal(err)
		}
		if got := filter.Selects(platform.Parse(test.platform)); got != test.want {
			t.Errorf("%s of %s: %v", test.filter, test.platform, got)
		}
	}
	if !platform.Filter(nil).Selects(platform.Parse("a/b")) {
		t.Error("no filter leaves platforms out")
	}
	for _, text := range []string{"linux", "linux/", "/amd64", "linux/arm/v7/x", "", " linux/amd64", "linux/a*", "linux/arm/*", "linux/amd64,linux/arm"} {
		if filter, err := platform.NewFilter([]string{text}); err == nil {
			t.Errorf("%q: %v", text, filter)
		}
	}
}

func TestContradicts(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"linux/amd64", "linux/x86_64", false},
		{"linux/amd64", "linux/arm64", true},
		{"linux/amd64", "windows/amd64", true},
		{"linux/arm/v6", "linux/arm/v7", false},
		{"linux/amd64", "/", false},
		{"linux/amd64", "unknown/unknown", false},
	} {
		if got := platform.Parse(test.a).Contradicts(platform.Parse(test.b)); got != test.want {
			t.Errorf("%s and %s: %v", test.a, test.b, got)
		}
	}
}
