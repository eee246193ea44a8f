// SPDX-License-Identifier: Apache-2.0

package conform

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

var spdxIDPattern = regexp.MustCompile(`\ASPDXRef-[A-Za-z0-9.-]+\z`)

// validSPDX holds a document to the schema of SPDX 2.3, to what the standard demands beside it, and to what Scanyard demands of canonical ones.
func validSPDX(content []byte) error {
	if err := validBySchema(content, spdxSchema); err != nil {
		return err
	}
	var d struct {
		SPDXID            string `json:"SPDXID"`
		Version           string `json:"spdxVersion"`
		DataLicense       string `json:"dataLicense"`
		Name              string `json:"name"`
		DocumentNamespace string `json:"documentNamespace"`
		CreationInfo      struct {
			Created  string   `json:"created"`
			Creators []string `json:"creators"`
		} `json:"creationInfo"`
		Packages []struct {
			SPDXID           string `json:"SPDXID"`
			Name             string `json:"name"`
			DownloadLocation string `json:"downloadLocation"`
		} `json:"packages"`
		Files []struct {
			SPDXID string `json:"SPDXID"`
			Name   string `json:"fileName"`
		} `json:"files"`
		Relationships []relationship `json:"relationships"`
	}
	if err := json.Unmarshal(content, &d); err != nil {
		return fmt.Errorf("the document is not JSON of this form: %w", err)
	}
	if d.Version != "SPDX-2.3" || d.SPDXID != "SPDXRef-DOCUMENT" || d.DataLicense != "CC0-1.0" || d.Name == "" || d.DocumentNamespace == "" {
		return errors.New("spdxVersion SPDX-2.3, SPDXID SPDXRef-DOCUMENT, dataLicense CC0-1.0, name and documentNamespace must be there")
	}
	if _, err := time.Parse("2006-01-02T15:04:05Z", d.CreationInfo.Created); err != nil || len(d.CreationInfo.Creators) == 0 {
		return errors.New("creationInfo needs created (YYYY-MM-DDThh:mm:ssZ) and creators")
	}
	for _, c := range d.CreationInfo.Creators {
		kind, _, _ := strings.Cut(c, ": ")
		if kind != "Tool" && kind != "Organization" && kind != "Person" {
			return fmt.Errorf("creator %q must begin with Tool, Organization or Person", c)
		}
	}
	ids := map[string]bool{"SPDXRef-DOCUMENT": true}
	for _, p := range d.Packages {
		if !spdxIDPattern.MatchString(p.SPDXID) || ids[p.SPDXID] || p.Name == "" || p.DownloadLocation == "" {
			return fmt.Errorf("package %q needs an SPDXID of its own (SPDXRef-…), name and downloadLocation", p.SPDXID)
		}
		ids[p.SPDXID] = true
	}
	for _, f := range d.Files {
		if !spdxIDPattern.MatchString(f.SPDXID) || ids[f.SPDXID] || f.Name == "" {
			return fmt.Errorf("file %q needs an SPDXID of its own (SPDXRef-…) and fileName", f.SPDXID)
		}
		ids[f.SPDXID] = true
	}
	return related(d.Relationships, ids)
}

// relationship joins two elements of a document.
type relationship struct {
	From string `json:"spdxElementId"`
	To   string `json:"relatedSpdxElement"`
	Type string `json:"relationshipType"`
}

// related wants both ends of each relationship in the document, and one that says what the document is about.
func related(list []relationship, ids map[string]bool) error {
	described := false
	for _, r := range list {
		if !ids[r.From] || !ids[r.To] {
			return fmt.Errorf("relationship %s from %q to %q: an element is not there", r.Type, r.From, r.To)
		}
		described = described || r.From == "SPDXRef-DOCUMENT" && r.Type == "DESCRIBES"
	}
	if !described {
		return errors.New("no relationship says what the document DESCRIBES")
	}
	return nil
}

// validCycloneDX holds a document to the schema of CycloneDX 1.6, and to what that does not say.
func validCycloneDX(content []byte) error {
	if err := validBySchema(content, cyclonedxSchema); err != nil {
		return err
	}
	var d struct {
		Format      string `json:"bomFormat"`
		SpecVersion string `json:"specVersion"`
		Version     int    `json:"version"`
		Components  []struct {
			Ref  string `json:"bom-ref"`
			Type string `json:"type"`
			Name string `json:"name"`
		} `json:"components"`
		Dependencies []struct {
			Ref string `json:"ref"`
		} `json:"dependencies"`
	}
	if err := json.Unmarshal(content, &d); err != nil {
		return fmt.Errorf("the document is not JSON of this form: %w", err)
	}
	if d.Format != "CycloneDX" || d.SpecVersion != "1.6" || d.Version < 1 {
		return errors.New("bomFormat CycloneDX, specVersion 1.6 and a version must be there")
	}
	refs := map[string]bool{}
	for _, c := range d.Components {
		if c.Type == "" || c.Name == "" || c.Ref != "" && refs[c.Ref] {
			return fmt.Errorf("component %q needs type and name, and a bom-ref of its own", c.Ref)
		}
		refs[c.Ref] = true
	}
	return nil
}
