// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"maps"
	"slices"
	"strings"

	"github.com/aquasecurity/trivy-db/pkg/ecosystem"
	"github.com/aquasecurity/trivy-db/pkg/vulnsrc/vulnerability"
	"github.com/aquasecurity/trivy/pkg/detector/library"
	ftypes "github.com/aquasecurity/trivy/pkg/fanal/types"
	"github.com/aquasecurity/trivy/pkg/types"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
)

const (
	// kindOther is that of buckets of distributions that are not known here. Every package of a distribution has it.
	kindOther = "os"
	// kindRedHat is that of Red Hat's buckets, which several distributions ask.
	kindRedHat = "redhat"
	// kindCPE is that of Red Hat's content sets: they decide which advisories concern an image.
	kindCPE = "redhat-cpe"
	anyName = "*"
	// separator stands between an ecosystem and a source, and between a module and a package.
	separator = "::"
)

// kinds are the beginnings of buckets, and their kinds. A longer one comes before a shorter.
var kinds = []struct{ bucket, kind string }{
	{"red hat cpe", kindCPE},
	{"red hat", kindRedHat},
	{"redhat", kindRedHat},
	{"centos", kindRedHat},
	{"alma", "alma"},
	{"alpine", "alpine"},
	{"amazon linux", "amazon"},
	{"azure linux", "azurelinux"},
	{"bottlerocket", "bottlerocket"},
	{"cbl-mariner", "cbl-mariner"},
	{"chainguard", "chainguard"},
	{"debian", "debian"},
	{"echo", "echo"},
	{"minimos", "minimos"},
	{"opensuse", "suse"},
	{"oracle linux", "oracle"},
	{"photon os", "photon"},
	{"rocky", "rocky"},
	{"suse linux", "suse"},
	{"ubuntu", "ubuntu"},
	{"wolfi", "wolfi"},
}

// suppliers stand before the name of the bucket whose packages they mend.
var suppliers = []string{"root.io ", "seal ", "rapidfort "}

// kindOf gives the kind of keys of a bucket at the root.
func kindOf(bucket string) string {
	name := strings.ToLower(bucket)
	for _, supplier := range suppliers {
		name = strings.TrimPrefix(name, supplier)
	}
	if kind, _, isLibrary := strings.Cut(name, separator); isLibrary {
		return kind
	}
	for _, k := range kinds {
		if strings.HasPrefix(name, k.bucket) {
			return k.kind
		}
	}
	return kindOther
}

// keysOfBucket gives the keys that a package of a bucket changes: for a package of a module also that of its own name.
func keysOfBucket(kind, bucket, pkg string) []string {
	switch {
	case kind == kindCPE:
		return []string{protocol.Key(kindCPE, anyName)}
	case strings.Contains(bucket, separator):
		return []string{protocol.Key(kind, pkg)}
	}
	if i := strings.LastIndex(pkg, separator); i >= 0 {
		return []string{protocol.Key(kind, pkg[i+len(separator):])}
	}
	return []string{protocol.Key(kind, pkg)}
}

// families are the kinds of buckets that the detectors of a distribution may ask.
var families = map[ftypes.OSType][]string{
	ftypes.Alma: {"alma"}, ftypes.Alpine: {"alpine"}, ftypes.Amazon: {"amazon"}, ftypes.Azure: {"azurelinux"},
	ftypes.Bottlerocket: {"bottlerocket"}, ftypes.CBLMariner: {"cbl-mariner", kindRedHat}, ftypes.CentOS: {kindRedHat, kindCPE},
	ftypes.Chainguard: {"chainguard"}, ftypes.CoreOS: {kindRedHat, kindCPE}, ftypes.Debian: {"debian"}, ftypes.Echo: {"echo", "debian"},
	ftypes.MinimOS: {"minimos"}, ftypes.OpenSUSELeap: {"suse"}, ftypes.OpenSUSETumbleweed: {"suse"}, ftypes.Oracle: {"oracle", kindRedHat},
	ftypes.Photon: {"photon"}, ftypes.RedHat: {kindRedHat, kindCPE}, ftypes.Rocky: {"rocky"}, ftypes.SLEMicro: {"suse"}, ftypes.SLES: {"suse"},
	ftypes.Ubuntu: {"ubuntu", "debian"}, ftypes.Wolfi: {"wolfi"},
}

// keysOf gives the keys of each package of a target, in order of the packages.
func keysOf(target types.ScanTarget) []protocol.PackageKeys {
	all := map[string]map[string]bool{}
	add := func(p ftypes.Package, keys ...string) {
		if p.Identifier.PURL == nil {
			return
		}
		purl := p.Identifier.PURL.String()
		if all[purl] == nil {
			all[purl] = map[string]bool{}
		}
		for _, key := range keys {
			all[purl][key] = true
		}
	}
	for _, p := range target.Packages {
		add(p, keysOfOS(target.OS.Family, p)...)
	}
	for _, a := range target.Applications {
		driver, known := library.NewDriver(a.Type)
		for _, p := range a.Packages {
			if known {
				kind := ecosystem.Type(driver.Type())
				add(p, protocol.Key(string(kind), vulnerability.NormalizePkgName(kind, p.Name)))
			} else {
				add(p)
			}
		}
	}
	list := make([]protocol.PackageKeys, 0, len(all))
	for _, purl := range slices.Sorted(maps.Keys(all)) {
		list = append(list, protocol.PackageKeys{PURL: purl, Keys: slices.Sorted(maps.Keys(all[purl]))})
	}
	return list
}

// keysOfOS gives the keys of a package of a distribution.
func keysOfOS(family ftypes.OSType, p ftypes.Package) []string {
	var keys []string
	asked := append(slices.Clone(families[family]), kindOther)
	if len(asked) == 1 {
		// A distribution that is not known here might be asked for under its own name.
		asked = append(asked, strings.ToLower(string(family)))
	}
	for _, kind := range asked {
		if kind == kindCPE {
			keys = append(keys, protocol.Key(kindCPE, anyName))
			continue
		}
		for _, name := range []string{p.Name, p.SrcName} {
			if name != "" {
				keys = append(keys, protocol.Key(kind, name))
			}
		}
	}
	return keys
}
