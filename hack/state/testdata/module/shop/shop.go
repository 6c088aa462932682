package shop

const open = true
