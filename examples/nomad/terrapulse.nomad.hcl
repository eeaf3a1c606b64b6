# The instances: one leads and dispatches launches, the other one stands by.
#
#   nomad acl policy apply -namespace default -job terrapulse terrapulse policy.hcl
#   nomad job run terrapulse.nomad.hcl
#
# docs/nomad.md has the policy. Without ACLs, leave out the first command.

job "terrapulse" {
  type        = "service"
  datacenters = ["*"]

  group "instance" {
    count = 2

    # An instance is named after its machine.
    constraint {
      operator = "distinct_hosts"
      value    = "true"
    }

    network {
      port "api" {
        static = 8558
      }
    }

    task "instance" {
      driver = "raw_exec"

      config {
        command = "/usr/local/bin/terrapulse"
        args    = ["start", "-config-dir=/etc/terrapulse", "-log-format=json"]
      }

      # The token of this job, with the policy above, and the agent's socket.
      identity {
        env = true
      }
      env {
        NOMAD_ADDR = "unix://${NOMAD_SECRETS_DIR}/api.sock"
      }

      resources {
        cpu    = 200
        memory = 128
      }
    }
  }
}
