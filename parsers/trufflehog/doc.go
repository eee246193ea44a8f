// SPDX-License-Identifier: Apache-2.0

// Package trufflehog is the parser of trufflehog's JSON lines (trufflehog … --json), result type trufflehog-jsonl: one
// finding per secret in one place.
//
// What it decides:
//
//   - trufflehog writes nothing where it finds nothing, so an empty report holds no secrets. Empty lines are passed over.
//   - Its log goes to the standard error, but often ends up in the report. Lines of the log (they have a level and a msg,
//     and no detector) are passed over. Any other line that is not a result is an error.
//   - Severity: a verified secret was tried and works, so it is HIGH. All others are MEDIUM, as those of gitleaks are
//     where a rule says nothing: it is unknown whether they still work.
//   - Findings do not hold the secret. The attribute offender, where those of gitleaks have it, holds trufflehog's own
//     redacted form, or the first four characters of a secret of at least 16 and an ellipsis. With the environment variable
//     INCLUDE_SECRETS set to "true" in the ParseDefinition it holds the secret itself. Working credentials should not
//     travel to every system that findings are sent to, unless a user wants that.
//   - The fingerprint is a hash of the secret too, so that it distinguishes secrets of one kind in one file. No reader can
//     read the secret from it, but a weak password can be guessed by trying.
//   - As with gitleaks, the commit becomes a link if the Scan's annotation metadata.scan.securecodebox.io/git-repo-url
//     says where the repository is.
package trufflehog
