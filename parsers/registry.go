// SPDX-License-Identifier: Apache-2.0

package parsers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/parsers/gitleaks"
	"github.com/scanyard/scanyard/parsers/nmap"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/testscan"
)

// All returns every parser, sorted by result type.
func All() []sdk.Parser {
	return []sdk.Parser{
		gitleaks.Parser(),
		nmap.Parser(),
		testscan.Parser(),
	}
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
