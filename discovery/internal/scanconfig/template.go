// SPDX-License-Identifier: Apache-2.0

package scanconfig

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// maxOutput bounds what a template may print.
const maxOutput = 64 << 10

// secretive are functions of sprig that are left out because they read the environment, which may hold credentials of
// the auto-discovery.
var secretive = []string{"env", "expandenv"}

// inconstant are functions of sprig that are left out: those whose result differs from
// call to call, which would make every pass find a difference, and one that asks the network.
var inconstant = []string{
	"ago", "bcrypt", "encryptAES", "genCA", "genCAWithKey", "genPrivateKey", "genSelfSignedCert", "genSelfSignedCertWithKey",
	"genSignedCert", "genSignedCertWithKey", "getHostByName", "htpasswd", "now", "randAlpha", "randAlphaNum", "randAscii",
	"randBytes", "randInt", "randNumeric", "shuffle", "uuidv4",
}

// functions of the templates.
var functions = func() template.FuncMap {
	all := maps.Clone(sprig.TxtFuncMap())
	maps.DeleteFunc(all, func(name string, _ any) bool {
		return slices.Contains(inconstant, name) || slices.Contains(secretive, name)
	})
	return all
}()

var undefined = regexp.MustCompile(`function "(\w+)" not defined`)

// parse reads one template.
func parse(text string) (*template.Template, error) {
	t, err := template.New("").Funcs(functions).Parse(text)
	if err == nil {
		return t, nil
	}
	message := plain(err)
	if m := undefined.FindStringSubmatch(message); m != nil {
		switch {
		case slices.Contains(inconstant, m[1]):
			message = fmt.Sprintf("the function %q is not available: its result differs from call to call", m[1])
		case slices.Contains(secretive, m[1]):
			message = fmt.Sprintf("the function %q is not available: it reads the environment of the auto-discovery", m[1])
		}
	}
	return nil, errors.New(message)
}

// place is what text/template puts before its errors: the nameless template, its line.
var place = regexp.MustCompile(`^template: (?:"")?:?\d+(?::\d+)?: (?:executing "" )?`)

// plain is the text of an error of text/template without the place in a nameless template.
func plain(err error) string { return place.ReplaceAllString(err.Error(), "") }

// execute prints a template. A function that panics is an error of text/template's.
func execute(t *template.Template, args any) (string, error) {
	out := &bounded{}
	if err := t.Execute(out, args); err != nil {
		return "", errors.New(plain(err))
	}
	return out.String(), nil
}

// bounded is a text that may not grow without end.
type bounded struct{ strings.Builder }

// Write refuses what is too much.
func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxOutput {
		return 0, fmt.Errorf("prints more than %d KiB", maxOutput>>10)
	}
	return b.Builder.Write(p)
}
