// SPDX-License-Identifier: Apache-2.0

package uploads

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"

	"github.com/scanyard/scanyard/reports/internal/contents"
	"github.com/scanyard/scanyard/reports/internal/spdx"
)

// component is a package in CycloneDX.
type component struct {
	Type    string `json:"type"`
	BOMRef  string `json:"bom-ref,omitempty"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	PURL    string `json:"purl,omitempty"`
}

// converted sends an SPDX document as CycloneDX, package by package.
func (s *Service) converted(ctx context.Context, w http.ResponseWriter, info *contents.Info) error {
	reader, err := contents.Open(ctx, s.store, info.Content)
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	out := bufio.NewWriter(w)
	_, err = out.WriteString(`{"bomFormat":"CycloneDX","specVersion":"1.6","version":1,"components":[`)
	first := true
	if err == nil {
		_, err = spdx.Read(reader, func(p *spdx.Package) error {
			data, err := json.Marshal(component{Type: "library", BOMRef: p.ID, Name: p.Name, Version: p.Version, PURL: p.PURL()})
			if err != nil {
				return err
			}
			if !first {
				data = append([]byte{','}, data...)
			}
			first = false
			_, err = out.Write(data)
			return err
		})
	}
	if err == nil {
		_, err = out.WriteString("]}\n")
	}
	if err == nil {
		err = out.Flush()
	}
	abortOn(0, err)
	return nil
}
