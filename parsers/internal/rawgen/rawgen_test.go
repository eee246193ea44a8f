// SPDX-License-Identifier: Apache-2.0

package rawgen_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/parsers/internal/rawgen"
)

// TestOutputIsReproducible asks for the same bytes twice, and for a size per finding as real scanners have it.
func TestOutputIsReproducible(t *testing.T) {
	const n = 1000
	tests := map[string]struct {
		open     func() io.Reader
		min, max int // bytes per finding
	}{
		"Nmap":       {func() io.Reader { return rawgen.Nmap(10, n/10, true) }, 150, 400},
		"Gitleaks":   {func() io.Reader { return rawgen.Gitleaks(n) }, 300, 800},
		"TrivyImage": {func() io.Reader { return rawgen.TrivyImage(n) }, 1500, 3000},
		"Nuclei":     {func() io.Reader { return rawgen.Nuclei(n) }, 800, 1800},
		"Zap":        {func() io.Reader { return rawgen.Zap(n) }, 1500, 3500},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			first, second := read(t, tt.open()), read(t, tt.open())
			if first != second {
				t.Error("the second is not the first")
			}
			if per := len(first) / n; per < tt.min || per > tt.max {
				t.Errorf("%d bytes per finding", per)
			}
		})
	}
}

// TestWellFormed asks for documents of any length that others can read.
func TestWellFormed(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 9, 10, 11, 100} {
		for name, document := range map[string]string{
			"TrivyImage": read(t, rawgen.TrivyImage(n)),
			"Gitleaks":   read(t, rawgen.Gitleaks(n)),
			"Nuclei":     "[" + strings.TrimSuffix(strings.ReplaceAll(read(t, rawgen.Nuclei(n)), "\n", ","), ",") + "]",
		} {
			if !json.Valid([]byte(document)) {
				t.Errorf("%s(%d) is not JSON", name, n)
			}
		}
		for name, document := range map[string]string{"Zap": read(t, rawgen.Zap(n)), "Nmap": read(t, rawgen.Nmap(max(n, 1), n, true))} {
			if err := walkXML(document); err != nil {
				t.Errorf("%s(%d): %v", name, n, err)
			}
		}
	}
}

func walkXML(document string) error {
	d := xml.NewDecoder(strings.NewReader(document))
	for {
		if _, err := d.Token(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

func read(t *testing.T, r io.Reader) string {
	t.Helper()
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
