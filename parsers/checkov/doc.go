// SPDX-License-Identifier: Apache-2.0

// Package checkov is the parser of checkov's JSON report (checkov -o json), result type checkov-json: one finding per
// failed check.
//
// What it decides:
//
//   - The report is one object, or an array of them if checkov ran several frameworks. An object without results is what
//     it writes where there was nothing to check, and makes no findings.
//   - Passed and skipped checks are not findings; a skipped one was suppressed by a user.
//   - Severity is checkov's, which it knows only if it is connected to its vendor's platform: CRITICAL and HIGH are HIGH.
//     Without it a failed check is MEDIUM: it breaks a policy that a user has chosen to check, and no rating says how
//     bad that is.
//   - The category follows the framework: sca_package and sca_image give vulnerabilities (with licences apart), secrets
//     potential secrets, all others misconfigurations.
//   - The code that checkov quotes is not kept: it would hold the secrets that it has found.
//   - What kind of report it is can come behind its results, so the input is read twice: once for the kinds, and once
//     for the checks, one at a time.
package checkov
