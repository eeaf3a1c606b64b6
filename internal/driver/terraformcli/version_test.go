package terraformcli

import "testing"

func TestInit_StartsNoTerraformForItsVersion(t *testing.T) {
	f := newFixture(t, fileModule)
	d := f.open()
	if !d.giveVersion() {
		t.Fatal("terraform-exec keeps the version of Terraform elsewhere now: see giveVersion")
	}
	known, _, err := d.tf.Version(t.Context(), false)
	if err != nil || known != d.bin.Version {
		t.Errorf("terraform-exec has read the version: %v, %v", known, err)
	}
}
