import unittest

from gristmill_guest.testing import Host
from handler import greet


class Greeting(unittest.TestCase):
    def test_it_greets(self):
        ending = Host().run(greet, {"name": "Ada"})
        self.assertEqual(ending.data, b'{"hello":"Ada"}')
