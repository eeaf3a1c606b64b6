# Written by Terrapulse, from its task files and from what Consul says.
# The next run of the task writes it again: changes made by hand are lost.
#
# Task: test
# Description: user description for task named 'test'

bool_true = true
nothing   = null
obj = {
  argList = ["a", "b"]
  argMap  = {}
  argNull = null
  argNum  = -0.52
  argStr  = "a $${b} \"c\"\n%%{d"
}
tup = ["abc", 123, false]

