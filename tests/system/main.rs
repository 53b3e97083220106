//! System tests: the real binary, driven as people and programs drive it.
mod block;
mod boxes;
mod cases;
mod clients;
mod console;
mod contract;
mod crash;
mod faults;
mod foreign;
mod import;
mod journeys;
mod recovery;
mod tls;
mod wrong_starts;
