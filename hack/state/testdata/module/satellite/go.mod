module example.com/satellite
