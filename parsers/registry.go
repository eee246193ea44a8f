// SPDX-License-Identifier: Apache-2.0

package parsers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/parsers/checkov"
	"github.com/scanyard/scanyard/parsers/cyclonedx"
	"github.com/scanyard/scanyard/parsers/ffuf"
	"github.com/scanyard/scanyard/parsers/gitleaks"
	"github.com/scanyard/scanyard/parsers/gitreposcanner"
	"github.com/scanyard/scanyard/parsers/grype"
	"github.com/scanyard/scanyard/parsers/junit"
	"github.com/scanyard/scanyard/parsers/kubehunter"
	"github.com/scanyard/scanyard/parsers/kubescape"
	"github.com/scanyard/scanyard/parsers/ncrack"
	"github.com/scanyard/scanyard/parsers/nikto"
	"github.com/scanyard/scanyard/parsers/nmap"
	"github.com/scanyard/scanyard/parsers/nuclei"
	"github.com/scanyard/scanyard/parsers/osvscanner"
	"github.com/scanyard/scanyard/parsers/registry"
	"github.com/scanyard/scanyard/parsers/sarif"
	"github.com/scanyard/scanyard/parsers/screenshooter"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/semgrep"
	"github.com/scanyard/scanyard/parsers/spdx"
	"github.com/scanyard/scanyard/parsers/sshaudit"
	"github.com/scanyard/scanyard/parsers/sslyze"
	"github.com/scanyard/scanyard/parsers/subfinder"
	"github.com/scanyard/scanyard/parsers/testscan"
	"github.com/scanyard/scanyard/parsers/testssl"
	"github.com/scanyard/scanyard/parsers/trivy"
	"github.com/scanyard/scanyard/parsers/trivysbom"
	"github.com/scanyard/scanyard/parsers/trufflehog"
	"github.com/scanyard/scanyard/parsers/whatweb"
	"github.com/scanyard/scanyard/parsers/wpscan"
	"github.com/scanyard/scanyard/parsers/zap"
)

// All returns every parser, sorted by result type.
func All() []sdk.Parser {
	all := []sdk.Parser{
		checkov.Parser(),
		cyclonedx.Parser(),
		ffuf.Parser(),
		gitleaks.Parser(),
		gitreposcanner.Parser(),
		grype.Parser(),
		junit.Parser(),
		kubehunter.Parser(),
		kubescape.Parser(),
		ncrack.Parser(),
		nikto.Parser(),
		nmap.Parser(),
		nuclei.Parser(),
		osvscanner.Parser(),
		registry.Parser(),
		sarif.Parser(),
		screenshooter.Parser(),
		semgrep.Parser(),
		spdx.Parser(),
		sshaudit.Parser(),
		sslyze.Parser(),
		subfinder.Parser(),
		testscan.Parser(),
		testssl.Parser(),
		trivy.Parser(),
		trivysbom.Parser(),
		trufflehog.Parser(),
		whatweb.Parser(),
		wpscan.Parser(),
		zap.Parser(),
	}
	slices.SortFunc(all, func(a, b sdk.Parser) int { return strings.Compare(a.ResultType, b.ResultType) })
	return all
}

// For returns the parser of a result type. The error lists the types there are.
func For(resultType string) (sdk.Parser, error) {
	all := All()
	i := slices.IndexFunc(all, func(p sdk.Parser) bool { return p.ResultType == resultType })
	if i >= 0 {
		return all[i], nil
	}
	known := make([]string, len(all))
	for i, p := range all {
		known[i] = p.ResultType
	}
	return sdk.Parser{}, fmt.Errorf("no parser here reads result type %q (there are %s); "+
		"name the right image in the ParseDefinition of that name", resultType, strings.Join(known, ", "))
}
