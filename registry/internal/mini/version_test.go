// SPDX-License-Identifier: Apache-2.0

package mini

import "testing"

func TestVersionsAreOrdered(t *testing.T) {
	for kind, versions := range map[string][]string{
		typeDeb: {"0.9", "1.0~rc1-1", "1.0-1", "1.0-1+deb12u1", "1.0-2", "1.0.1-1", "1.10-1", "1.10a-1", "1.10+b-1", "1:0.1-1", "1:1.2.13.dfsg-1", "2:0"},
		typeApk: {"1.0_alpha1", "1.0_beta", "1.0_rc2", "1.0", "1.0-r1", "1.0_p1", "1.0a", "1.1.1-r9", "1.1.1-r10", "3.1.1-r1"},
		typeNpm: {"0.2.3", "1.0.0-2", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0", "1.2.6", "1.10.0", "4.17.20", "4.17.21"},
		typeGo:  {"v0.3.7", "v0.4.0", "v1.19rc1", "v1.19", "v1.19.4", "v1.20.1", "v1.21.0"},
	} {
		t.Run(kind, func(t *testing.T) {
			for i, a := range versions {
				for j, b := range versions {
					got := compareVersions(kind, a, b)
					if (got < 0) != (i < j) || (got > 0) != (i > j) {
						t.Errorf("%s and %s: got %d", a, b, got)
					}
				}
			}
		})
	}
}

func FuzzVersions(f *testing.F) {
	f.Add("1:1.0~rc1-1", "1.0_p1-r3")
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, kind := range []string{typeDeb, typeApk, typeNpm} {
			if there, back := compareVersions(kind, a, b), compareVersions(kind, b, a); (there < 0) != (back > 0) {
				t.Errorf("%s: %q and %q: %d and %d", kind, a, b, there, back)
			}
		}
	})
}
