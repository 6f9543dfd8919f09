"""Kinds that are asked and answered, never stored: may this user do that, who am I, is this token good.

A review reads its question from the body and writes the answer into its status. It decides nothing itself: the
authorizer and the authenticator do.
"""
