// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"os"
	"regexp"
	"strings"
	"testing"

	dbtypes "github.com/aquasecurity/trivy-db/pkg/types"
	ftypes "github.com/aquasecurity/trivy/pkg/fanal/types"
	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
)

func TestEngineVersionIsThatOfTheModule(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`github\.com/aquasecurity/trivy v(\S+)`).FindStringSubmatch(string(text))
	if found == nil || found[1] != EngineVersion {
		t.Errorf("go.mod has %v, and EngineVersion is %s", found, EngineVersion)
	}
}

func TestBucketsAndDetectorsHaveTheSameKinds(t *testing.T) {
	for bucket, want := range map[string]string{
		"debian 12": "debian", "alpine 3.18": "alpine", "Red Hat": "redhat", "Red Hat CPE": "redhat-cpe", "amazon linux 2023": "amazon",
		"SUSE Linux Enterprise 15.5": "suse", "openSUSE Leap 15.5": "suse", "Oracle Linux 8": "oracle", "root.io debian 12": "debian",
		"seal redhat": "redhat", "npm::GitHub Security Advisory npm": "npm", "seal npm::Seal": "npm", "Photon OS 5.0": "photon",
		"CBL-Mariner 2.0": "cbl-mariner", "Azure Linux 3.0": "azurelinux", "never heard of it 7": "os", "wolfi": "wolfi", "ubuntu 24.04": "ubuntu",
		"rocky 9": "rocky", "alma 9": "alma", "chainguard": "chainguard", "echo": "echo", "minimos": "minimos", "bottlerocket": "bottlerocket",
	} {
		kind := kindOf(bucket)
		if kind != want {
			t.Errorf("%s: got %s", bucket, kind)
		}
		asked := strings.Contains(bucket, separator) || kind == kindOther
		for _, list := range families {
			for _, one := range list {
				asked = asked || one == kind
			}
		}
		if !asked {
			t.Errorf("no distribution asks buckets of the kind %s", kind)
		}
	}
}

func TestKeysOfAModuleAreThoseOfItsPackages(t *testing.T) {
	p := ftypes.Package{Name: "npm", SrcName: "nodejs", Modularitylabel: "nodejs:12:8030020201124152102:229f0a1c"}
	keys := keysOfOS(ftypes.RedHat, p)
	for _, key := range keysOfBucket(kindOf("Red Hat"), "Red Hat", "nodejs:12::npm") {
		if !strings.Contains(strings.Join(keys, " ")+" ", key+" ") {
			t.Errorf("%s is not one of %v", key, keys)
		}
	}
	if diff := cmp.Diff([]string{"redhat-cpe|*"}, keysOfBucket(kindOf("Red Hat CPE"), "Red Hat CPE", "repository")); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(strings.Join(keys, " "), "redhat-cpe|*") {
		t.Errorf("content sets concern every package: %v", keys)
	}
}

func TestScoreIsHighestOfNewestVersion(t *testing.T) {
	list, score := scoresOf(dbtypes.VendorCVSS{
		"nvd":    {V2Vector: "AV:N", V2Score: 10, V3Vector: "CVSS:3.1/AV:N", V3Score: 7.5},
		"redhat": {V3Vector: "CVSS:3.0/AV:L", V3Score: 8.1},
		"ghsa":   {V40Vector: "CVSS:4.0/AV:N"},
	})
	if diff := cmp.Diff([]protocol.CVSS{
		{Source: "ghsa", Version: "4.0", Vector: "CVSS:4.0/AV:N"},
		{Source: "nvd", Version: "2.0", Vector: "AV:N", Score: 10},
		{Source: "nvd", Version: "3.1", Vector: "CVSS:3.1/AV:N", Score: 7.5},
		{Source: "redhat", Version: "3.0", Vector: "CVSS:3.0/AV:L", Score: 8.1},
	}, list); diff != "" || score != 8.1 {
		t.Error(diff, score)
	}
}

func TestTextsAreCutBetweenCharacters(t *testing.T) {
	if got := cut("aäb", 2); got != "a" {
		t.Errorf("got %q", got)
	}
	if got := cut("a\xffb", 100); got != "a\uFFFDb" {
		t.Errorf("got %q", got)
	}
}
