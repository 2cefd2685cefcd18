	retab
