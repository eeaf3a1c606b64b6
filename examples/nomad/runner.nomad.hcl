# The runner of a launch: the leader dispatches this job for each launch.
#
#   nomad job run runner.nomad.hcl
#
# Its clients need terrapulse, Terraform, and the folder /etc/terrapulse with the
# task files, such as tasks.hcl here, and their modules, as the instances do.

variable "otlp" {
  description = "Where traces are sent, such as http://collector.example.com:4318; nowhere without it"
  default     = ""
}

job "terrapulse-runner" {
  type        = "batch"
  datacenters = ["*"]

  parameterized {
    meta_required = ["launch"]
  }

  group "runner" {
    # Terrapulse itself runs a task again. A second process for the same launch
    # would find that its runs are taken.
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }

    task "runner" {
      driver = "raw_exec"

      # Terraform may take a minute to end, and then has to save its state. The
      # client's max_kill_timeout must allow it: by default it is 30s.
      kill_timeout = "2m"

      config {
        command = "/usr/local/bin/terrapulse"
        args    = ["runner", "-config-dir=/etc/terrapulse", "-log-format=json"]
      }

      # A run's trace begins at an instance: set the same there. docs/traces.md
      env {
        OTEL_EXPORTER_OTLP_ENDPOINT = var.otlp
      }

      # The resources of Terraform and its providers, for the runs of a launch
      # that work at a time (-parallel).
      resources {
        cpu    = 500
        memory = 1024
      }
    }
  }
}
