# Written by Terrapulse, from its task files and from what Consul says.
# The next run of the task writes it again: changes made by hand are lost.
#
# Task: test
# Description: user description for task named 'test'

variable "bool_true" {
  default = null
  type    = bool
}

variable "nothing" {
  default = null
  type    = any
}

variable "obj" {
  default = null
  type = object({
    argList = tuple([string, string])
    argMap  = object({})
    argNull = any
    argNum  = number
    argStr  = string
  })
}

variable "tup" {
  default = null
  type    = tuple([string, number, bool])
}
