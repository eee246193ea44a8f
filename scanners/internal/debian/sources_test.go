// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestMachineMirrors(t *testing.T) {
	const stanza = `# made by the installer
Types: deb
URIs: http://mirror.example/debian/
Suites: trixie
Components: main

Types: deb
Enabled: no
URIs: http://off.example/debian-security

Types: deb deb-src
URIs:
 https://deb.example/node_20.x
 http://security.example/debian-security
Suites: trixie-security
`
	for name, tc := range map[string]struct {
		files map[string]string
		want  map[string]string
	}{
		"None":    {nil, map[string]string{}},
		"Stanzas": {map[string]string{"sources.list.d/debian.sources": stanza}, map[string]string{"debian": "http://mirror.example/debian", "debian-security": "http://security.example/debian-security"}},
		"Lines": {
			map[string]string{"sources.list": `
# deb http://commented.example/debian trixie main
deb-src http://sources.example/debian trixie main
deb cdrom:[Debian]/ trixie main
deb [arch=amd64 signed-by=/usr/share/keyrings/x.gpg] https://mirror.example/debian trixie main # ours
deb http://later.example/debian trixie main`},
			map[string]string{"debian": "https://mirror.example/debian", "debian-security": "https://mirror.example/debian-security"},
		},
		"ListBeforeFolder": {
			map[string]string{"sources.list": "deb http://first.example/debian trixie main\n", "sources.list.d/debian.sources": stanza},
			map[string]string{"debian": "http://first.example/debian", "debian-security": "http://security.example/debian-security"},
		},
		"OtherDistribution": {map[string]string{"sources.list": "deb http://archive.ubuntu.example/ubuntu noble main\n"}, map[string]string{}},
		"Broken":            {map[string]string{"sources.list": "deb\ndeb [\ndeb http://%zz/debian x\n", "sources.list.d/x.sources": " \n:\nURIs: http://no.types/debian"}, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			apt := fstest.MapFS{}
			for file, text := range tc.files {
				apt[file] = &fstest.MapFile{Data: []byte(text)}
			}
			if diff := cmp.Diff(tc.want, MachineMirrors(apt)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
