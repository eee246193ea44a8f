// SPDX-License-Identifier: Apache-2.0

package crdcontract

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	contractFile = "../../testdata/contract.yaml"
	crdFolder    = "../../../charts/scanyard/crds"
	// maxCRD is what client-side apply can keep in an object's annotation.
	maxCRD = 256 << 10
)

// contract is testdata/contract.yaml.
type contract struct {
	Kinds  []kind           `json:"kinds"`
	Tables map[string]table `json:"tables"`
}

type kind struct {
	Kind              string   `json:"kind"`
	Group             string   `json:"group"`
	Names             []string `json:"names"`
	ShortName         string   `json:"shortName"`
	Scope             string   `json:"scope"`
	StatusSubresource bool     `json:"statusSubresource"`
	Spec              string   `json:"spec"`
	Status            string   `json:"status"`
	Columns           []column `json:"columns"`
}

type column struct {
	Name     string `json:"name"`
	Path     string `json:"path"`
	Type     string `json:"type"`
	Priority int    `json:"priority"`
	Added    bool   `json:"added"`
}

type table map[string]field

type field struct {
	Type         string   `json:"type"`
	Required     bool     `json:"required"`
	Added        bool     `json:"added"`
	Nullable     bool     `json:"nullable"`
	Default      any      `json:"default"`
	Enum         []any    `json:"enum"`
	Minimum      *float64 `json:"minimum"`
	ListType     string   `json:"listType"`
	MapType      string   `json:"mapType"`
	ItemsRequire []string `json:"itemsRequire"`
}

func readContract(t *testing.T) contract {
	t.Helper()
	raw, err := os.ReadFile(contractFile)
	if err != nil {
		t.Fatal(err)
	}
	var c contract
	if err := yaml.UnmarshalStrict(raw, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// readCRDs returns the CRDs of the chart by kind.
func readCRDs(t *testing.T) map[string]crd {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(crdFolder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs in %s: %v", crdFolder, err)
	}
	all := map[string]crd{}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		c := crd{file: filepath.Base(f), size: len(raw)}
		if err := yaml.Unmarshal(raw, &c); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		all[c.Spec.Names.Kind] = c
	}
	return all
}

// crd is what is looked at of a CustomResourceDefinition.
type crd struct {
	file string
	size int

	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Group      string         `json:"group"`
		Scope      string         `json:"scope"`
		Names      names          `json:"names"`
		Conversion map[string]any `json:"conversion"`
		Versions   []version      `json:"versions"`
	} `json:"spec"`
}

type names struct {
	Kind       string   `json:"kind"`
	ListKind   string   `json:"listKind"`
	Plural     string   `json:"plural"`
	Singular   string   `json:"singular"`
	ShortNames []string `json:"shortNames"`
	Categories []string `json:"categories"`
}

type version struct {
	Name         string         `json:"name"`
	Served       bool           `json:"served"`
	Storage      bool           `json:"storage"`
	Subresources map[string]any `json:"subresources"`
	Columns      []struct {
		Name     string `json:"name"`
		JSONPath string `json:"jsonPath"`
		Type     string `json:"type"`
		Priority int    `json:"priority"`
	} `json:"additionalPrinterColumns"`
	Schema struct {
		Root schema `json:"openAPIV3Schema"`
	} `json:"schema"`
}

func TestEveryKindOfTheContractExists(t *testing.T) {
	crds := readCRDs(t)
	for _, k := range readContract(t).Kinds {
		if _, ok := crds[k.Kind]; !ok {
			t.Errorf("there is no CRD of kind %s", k.Kind)
		}
		delete(crds, k.Kind)
	}
	for name, c := range crds {
		if c.Spec.Group == settingsGroup {
			continue // not of the wire contract; see settings_test.go
		}
		t.Errorf("%s: kind %s is not in %s", c.file, name, contractFile)
	}
}

func TestKinds(t *testing.T) {
	crds := readCRDs(t)
	for _, k := range readContract(t).Kinds {
		t.Run(k.Kind, func(t *testing.T) {
			c := crds[k.Kind]
			equal(t, "metadata.name", k.Names[0]+"."+k.Group, c.Metadata.Name)
			equal(t, "group", k.Group, c.Spec.Group)
			equal(t, "scope", k.Scope, c.Spec.Scope)
			var short []string
			if k.ShortName != "" {
				short = []string{k.ShortName}
			}
			equal(t, "names", names{
				Kind: k.Kind, ListKind: k.Kind + "List", Plural: k.Names[0], Singular: k.Names[1], ShortNames: short, Categories: []string{"scanyard"},
			}, c.Spec.Names)
			equal(t, "conversion", map[string]any(nil), c.Spec.Conversion)
			if len(c.Spec.Versions) != 1 {
				t.Fatalf("%d versions, want one", len(c.Spec.Versions))
			}
			v := c.Spec.Versions[0]
			equal(t, "version", "v1", v.Name)
			equal(t, "served and stored", true, v.Served && v.Storage)
			_, status := v.Subresources["status"]
			equal(t, "status subresource", k.StatusSubresource, status)
			_, scale := v.Subresources["scale"]
			equal(t, "scale subresource", false, scale)
			var columns []column
			for i, have := range v.Columns {
				added := i < len(k.Columns) && k.Columns[i].Added // no part of the CRD
				columns = append(columns, column{have.Name, have.JSONPath, have.Type, have.Priority, added})
			}
			equal(t, "printer columns", k.Columns, columns)
		})
	}
}

// TestDefect58CRDsFitIntoAnAnnotation is about CRDs that plain kubectl apply cannot install.
func TestDefect58CRDsFitIntoAnAnnotation(t *testing.T) {
	for _, c := range readCRDs(t) {
		if c.size >= maxCRD {
			t.Errorf("%s has %d bytes; client-side apply takes less than %d", c.file, c.size, maxCRD)
		}
	}
}

// TestDefect59AgeConditionsAndStart is about Scans of which kubectl get shows no age, no conditions and no
// start, so that nobody sees how long they take.
func TestDefect59AgeConditionsAndStart(t *testing.T) {
	for name, c := range readCRDs(t) {
		columns := c.Spec.Versions[0].Columns
		last := columns[len(columns)-1]
		if last.Name != "Age" || last.Type != "date" || last.Priority != 0 {
			t.Errorf("%s: the last column is %s, want Age", name, last.Name)
		}
	}
	status := readCRDs(t)["Scan"].Spec.Versions[0].Schema.Root.Properties["status"]
	for _, f := range []string{"conditions", "observedGeneration", "startedAt", "finishedAt"} {
		if _, ok := status.Properties[f]; !ok {
			t.Errorf("Scan.status has no %s", f)
		}
	}
}

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}
