// SPDX-License-Identifier: Apache-2.0

package ncrack

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/scanyard/scanyard/parsers/internal/hostile"
	"github.com/scanyard/scanyard/parsers/internal/rawgen"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

const (
	address = `<address addr="192.0.2.1"/>`
	port    = `<port portid="22" name="ssh" protocol="tcp"/>`
	start   = `<ncrackrun><service>` + address + port
	end     = `</service></ncrackrun>`
)

func TestHostileResults(t *testing.T) {
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"EndlessAttribute":   {Start: start + `<credentials username="`, Endless: "a", Want: "too large: a tag of more than 16777216 bytes"},
		"EndlessCredentials": {Start: start, Endless: `<credentials username="a" password="b"/>`, Want: "too large: a service with more than"},
		"DeeplyNested":       {Start: start, Endless: `<a>`, Want: "nested deeper than 256"},
		"BillionLaughs":      {Start: `<!DOCTYPE ncrackrun [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><ncrackrun args="&b;">`, Want: "unknown entity &b;"},
		"Empty":              {Want: "the input ends before the document does"},
		"JSON":               {Start: `{"a":1}`, Want: `line 1, byte 0: text "{\"a\":1}" outside of the root element`},
		"Binary":             {Start: "\x1f\x8b\x08\x00", Want: "outside of the root element"},
		"OtherXML":           {Start: "\n<html>", Want: `line 2: the root element is "html", not "ncrackrun"`},
		"Truncated":          {Start: start, Want: "Ncrack was probably stopped before its end"},
		"NoService":          {Start: "<ncrackrun/>", Want: "the result has no service"},
		"NoAddress":          {Start: `<ncrackrun><service>` + port + end, Want: "service 1 has no address"},
		"NoPort":             {Start: "<ncrackrun>\n<service>" + address + end, Want: "line 2: service 1 has no port"},
		"BareAddress":        {Start: `<ncrackrun><service><address/>`, Want: "address of service 1 without attributes"},
		"BareCredentials":    {Start: start + `<credentials/>`, Want: "credentials of service 1 without attributes"},
	})
}

// many is a result with as many services, each with one pair of credentials.
func many(services int64) io.Reader {
	const one = `<service>` + address + port + `<credentials username="root" password="secret"/></service>`
	return io.MultiReader(strings.NewReader(`<ncrackrun>`),
		io.LimitReader(rawgen.Endless(one), services*int64(len(one))), strings.NewReader(`</ncrackrun>`))
}

func TestManyServicesInLittleMemory(t *testing.T) {
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return many(20_000) }})
	if err != nil || n != 20_000 {
		t.Errorf("got %d findings, %v", n, err)
	}
}

// keyPair returns an identity and a file with its recipient, between the texts before and after.
func keyPair(t *testing.T, before, after string) (identity *age.X25519Identity, file string) {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return identity, write(t, before+identity.Recipient().String()+after)
}

func write(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "public.key")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// passwords parses a result with one pair of credentials per password and returns those of the findings.
func passwords(t *testing.T, keyFile string, plain ...string) []string {
	t.Helper()
	raw := []byte(start)
	for _, p := range plain {
		raw = fmt.Appendf(raw, `<credentials username="root" password="%s"/>`, p)
	}
	findings, err := sdktest.Parse(t, Parser(), sdktest.Case{Raw: append(raw, end...), Env: map[string]string{envKey: keyFile}})
	if err != nil {
		t.Fatal(err)
	}
	var got []struct{ Attributes struct{ Password string } }
	if err := json.Unmarshal(findings, &got); err != nil {
		t.Fatal(err)
	}
	list := make([]string, len(got))
	for i := range got {
		list[i] = got[i].Attributes.Password
	}
	if len(list) != len(plain) {
		t.Fatalf("want %d findings, got %s", len(plain), findings)
	}
	return list
}

func TestPasswordsAreEncrypted(t *testing.T) {
	for name, file := range map[string][2]string{
		"Bare": {"", ""}, "NewLines": {"\n  ", " \r\n\n"}, "Comment": {"# for the security team\n", "\n"}, "Mark": {"\uFEFF", "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			identity, file := keyPair(t, file[0], file[1])
			plain := []string{"aaf076d4fe7cfb63fd1628df91", "", "pä\u2028ss", "p&#xD800;&#xD83D;&#xDE00;"}
			want := []string{plain[0], "", plain[2], "p\uFFFD\U0001F600"}
			for i, sealed := range passwords(t, file, plain...) {
				decrypted, err := age.Decrypt(armor.NewReader(strings.NewReader(sealed)), identity)
				if err != nil {
					t.Fatalf("%v:\n%s", err, sealed)
				}
				if got, err := io.ReadAll(decrypted); err != nil || string(got) != want[i] {
					t.Errorf("want %q, got %q, %v", want[i], got, err)
				}
			}
			if sealed := passwords(t, file, plain[0])[0]; len(sealed) != 377 || !strings.HasSuffix(sealed, "-----END AGE ENCRYPTED FILE-----\n") {
				t.Errorf("got %d characters:\n%s", len(sealed), sealed)
			}
		})
	}
}

// TestEncryptedLengthsAreStable: large results are parsed twice, and the length is told after the first time.
func TestEncryptedLengthsAreStable(t *testing.T) {
	_, file := keyPair(t, "", "")
	plain := strings.Repeat("secret ", 100)
	first := passwords(t, file, plain)[0]
	for range 200 {
		if again := passwords(t, file, plain)[0]; len(again) != len(first) || again == first {
			t.Fatalf("%d and %d characters, or the same twice:\n%s", len(first), len(again), again)
		}
	}
}

func TestUnusableKeys(t *testing.T) {
	identity, file := keyPair(t, "", "")
	recipient := identity.Recipient().String()
	tests := map[string]struct{ file, want string }{
		"Missing":       {filepath.Join(t.TempDir(), "none"), "no such file"},
		"Folder":        {t.TempDir(), "is a directory"},
		"Empty":         {write(t, " \n"), "no recipients found"},
		"SecretKey":     {write(t, identity.String()), "must hold an age recipient"},
		"PEM":           {write(t, "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----\n"), "must hold an age recipient"},
		"Typo":          {write(t, recipient[:len(recipient)-1]+"!"), "must hold an age recipient"},
		"TwoRecipients": {write(t, recipient+"\n"+recipient), "must hold one age recipient, but holds 2"},
		"Binary":        {write(t, "\xff\xfe\x00"), "must hold an age recipient"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			// Without credentials too: the fault should show before there is something to lose.
			_, err := sdktest.Parse(t, Parser(), sdktest.Case{Raw: []byte(start + end), Env: map[string]string{envKey: tt.file}})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("want %q, got %v", tt.want, err)
			}
			if strings.Contains(err.Error(), "AGE-SECRET-KEY") {
				t.Errorf("the error shows the secret key: %v", err)
			}
		})
	}
	t.Run("NoPassword", func(t *testing.T) {
		_, err := sdktest.Parse(t, Parser(), sdktest.Case{Raw: []byte(start + `<credentials username="a"/>` + end), Env: map[string]string{envKey: file}})
		if err == nil || !strings.Contains(err.Error(), "have no password that could be encrypted") {
			t.Errorf("got %v", err)
		}
	})
}

func FuzzParse(f *testing.F) {
	sdktest.Seeds(f, "testdata")
	f.Fuzz(func(t *testing.T, raw []byte) { sdktest.Fuzz(t, Parser(), raw) })
}

func BenchmarkParse(b *testing.B) {
	sdktest.Benchmark(b, Parser(), func() io.Reader { return many(10_000) })
}
