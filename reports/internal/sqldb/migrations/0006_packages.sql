-- Which package has a vulnerability, and whether a newer version fixes it. NULL where a result is of no package, and in
-- rows that are older, until they are filled in.
ALTER TABLE results ADD COLUMN pkg_type {{.Int}} NULL;
ALTER TABLE results ADD COLUMN pkg_version {{.Int}} NULL;
ALTER TABLE results ADD COLUMN fixable {{.Small}} NULL;
-- What is open needs no place in the index of what was fixed.
{{.DropIndex "history_fixed" "history"}};
CREATE INDEX history_fixed ON history (fixed_at, ns, severity, first_at) {{.Where "fixed_at IS NOT NULL"}};
